import type { Page } from "playwright/test";
import { codeOf, enrollApps } from "../remix-app/testing/authenticator-app.ts";
import { type CommandLinePhone, openCommandLinePhone } from "../scripts/test/command-line-phone.ts";
import { readStack } from "../scripts/test/stack.ts";
import { test as base, enter, expect, expectWellMade, type Person, signIn } from "./test.ts";

const { supabase } = readStack();

const test = base.extend<{ phone: CommandLinePhone }>({
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the parameter's pattern
  phone: async ({}, use) => {
    const phone = openCommandLinePhone();
    await use(phone);
    phone.close();
  },
});

const heading = (page: Page, name: string) => page.getByRole("heading", { name, level: 1 });

/** Runs a command that must succeed. */
async function tell(phone: CommandLinePhone, argv: string[], environment?: Record<string, string>): Promise<string> {
  const { code, out, err } = await phone.run(argv, environment);
  expect(code, err).toBe(0);
  return out;
}

const signInOn = (phone: CommandLinePhone, { email, password }: Person, ...more: string[]) =>
  tell(phone, ["sign-in", email, ...more], { MOBILE_PASSWORD: password });

/** Returns the link in the QR code. */
async function linkOn(page: Page): Promise<string> {
  await expect(page.getByRole("img", { name: "QR code for the Gatehouse app" })).toBeVisible();
  const poll = (await page.locator("#waiting").getAttribute("data-poll")) ?? "";
  const [, id, secret] = /challenges\/([^?]+)\?secret=(.+)$/.exec(poll) ?? [];
  return `${new URL(page.url()).origin}/qr/open#${id}.${secret}`;
}

const sessionOf = async (page: Page): Promise<{ sessionId: string; aal: string; mfa: { satisfied: boolean } }> =>
  (await page.request.get("/api/v1/auth/session")).json();

/**
 * Enrolls an authenticator app and signs the phone in with a code from the app. Enrolling ends all sessions that have
 * no second factor.
 */
async function proveOn(phone: CommandLinePhone, member: Person): Promise<void> {
  const [app] = await enrollApps(supabase, { ...member, names: ["Authenticator"] });
  if (!app) throw new Error("no app");
  expect(await signInOn(phone, member, "--code", codeOf(app, 1))).toContain("second step done");
}

test("approving a browser's QR code on a phone gives the browser a new session", async ({ page, member, phone }) => {
  await signInOn(phone, member);
  await enter(page, member, "/qr?returnUrl=%2Fworkspaces");
  await expect(heading(page, "Confirm it’s you with your phone")).toBeVisible();
  await page.getByRole("button", { name: "Show QR code" }).click();
  await expect(page.getByText("Waiting for your phone")).toBeVisible();
  await expectWellMade(page);

  expect(await tell(phone, ["qr", "reject", await linkOn(page)])).toBe("Rejected.");
  await expect(page.getByText("The request was rejected")).toBeVisible();
  await page.getByRole("button", { name: "Show a new code" }).click();

  const link = await linkOn(page);
  const before = (await sessionOf(page)).sessionId;
  expect(await tell(phone, ["qr", "show", link])).toMatch(/^Requested by \w+ on \w+ at [\da-f.:]+, .+Z\.$/);
  expect(await tell(phone, ["qr", "approve", link])).toMatch(/^Requested by .+\nApproved/);
  await expect(page).toHaveURL("/workspaces");
  expect((await sessionOf(page)).sessionId).not.toBe(before);
  expect((await phone.run(["qr", "approve", link])).err).toContain("already answered");
  expect(await tell(phone, ["whoami"])).toContain(member.email);
});

test("approval on a phone at AAL2 completes the browser's second step", async ({ page, member, phone }) => {
  await proveOn(phone, member);
  await signIn(page, member, { at: "/login?returnUrl=%2Fworkspaces" });
  await page.getByText("Try another way").click();
  await page.getByRole("link", { name: /^Approve on your phone/ }).click();
  await expect(heading(page, "Approve on your phone")).toBeVisible();
  await page.getByRole("button", { name: "Send request to my phone" }).click();
  await expect(page.getByText("Waiting for your phone")).toBeVisible();
  await expectWellMade(page);

  const [id = ""] = (await tell(phone, ["mfa", "list"])).split("\t");
  const pairCode = ((await page.getByText(/^\d{3} \d{3}$/).textContent()) ?? "").replace(" ", "");
  const wrong = String((Number(pairCode) + 1) % 1_000_000).padStart(6, "0");
  const refused = await phone.run(["mfa", "approve", id, "--pair-code", wrong]);
  expect(refused.err).toContain("Attempts left: 4");
  expect(await tell(phone, ["mfa", "reject", id])).toBe("The request is rejected.");
  await expect(page.getByText("The request was rejected")).toBeVisible();
  await page.getByRole("button", { name: "Send request to my phone" }).click();

  const shown = page.getByText(/^\d{3} \d{3}$/);
  await expect(shown).toBeVisible();
  const next = ((await shown.textContent()) ?? "").replace(" ", "");
  const [nextId = ""] = (await tell(phone, ["mfa", "list"])).split("\t");
  expect(await tell(phone, ["mfa", "approve", nextId, "--pair-code", next])).toBe("The request is approved.");
  await expect(page).toHaveURL("/workspaces");
  expect(await sessionOf(page)).toMatchObject({ aal: "aal1", mfa: { satisfied: true } });
  const cookies = await page.context().cookies();
  expect(cookies.find(({ name }) => name === "ttr_mfa_mobile_approval")).toMatchObject({ httpOnly: true });
  expect(await tell(phone, ["mfa", "list"])).toBe("Nothing waits for you.");
});

test("a browser that opens a QR code's link asks the person to scan the code, and keeps no secret in its URL", async ({
  page,
}) => {
  await page.goto("/qr/open#00000000-0000-4000-8000-000000000000.secret");
  await expect(heading(page, "Scan the code with the Gatehouse app")).toBeVisible();
  await expect(page).toHaveURL("/qr/open");
  await expectWellMade(page);
});
