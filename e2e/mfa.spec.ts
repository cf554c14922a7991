import { readFile } from "node:fs/promises";
import type { Page } from "playwright/test";
import { type AuthenticatorApp, codeOf, wrongCodesOf } from "../remix-app/testing/authenticator-app.ts";
import { insertAuthenticators, query } from "../scripts/test/people.ts";
import { expect, expectWellMade, type Person, signIn, test } from "./test.ts";

const heading = (page: Page, name: string) => page.getByRole("heading", { name, level: 1 });

const apps = (page: Page) =>
  page.locator("section", { has: page.getByRole("heading", { name: "Authenticator apps" }) });

async function enterCode(page: Page, code: string): Promise<void> {
  await page.getByLabel("6-digit code").fill(code);
  await page.getByRole("button", { name: /^(Verify|Verify and add|Confirm)$/ }).click();
}

/** Enrolls an authenticator app with the key on the page, and continues to the recovery codes. */
async function enrollOnPage(page: Page, { name = "" } = {}) {
  if (name) await page.getByLabel("Name (optional)").fill(name);
  await page.getByRole("button", { name: "Set up app" }).click();
  await expect(page.getByRole("img", { name: "QR code for your authenticator app" })).toBeVisible();
  const secret = ((await page.getByText(/^([A-Z2-7]{4} ?)+$/).textContent()) ?? "").replaceAll(" ", "");
  const used = codeOf({ secret });
  await enterCode(page, used);
  return { secret, used };
}

async function enroll(person: Person, ...names: [string, ...string[]]) {
  const [first, ...others] = await insertAuthenticators({ id: await idOf(person) }, names);
  if (!first) throw new Error("no app");
  return [first, ...others] as const;
}

const idOf = async ({ email }: Person) => {
  const [row] = await query<{ id: string }>("select id from auth.users where email = $1", [email]);
  return row?.id ?? "";
};

test("a person can add an authenticator app, and the next sign-in requires its code", async ({ page, member }) => {
  await signIn(page, member, { at: "/login?returnUrl=%2Fsettings%2Fsecurity" });
  await page.getByRole("link", { name: "Add app" }).click();
  await expect(heading(page, "Add an authenticator app")).toBeVisible();
  await expectWellMade(page);
  const app = await enrollOnPage(page, { name: "Work phone" });
  await expect(heading(page, "Save your recovery codes")).toBeVisible();
  await expectWellMade(page);

  const codes = await page.getByRole("list", { name: "Recovery codes" }).getByRole("listitem").allTextContents();
  expect(codes).toHaveLength(10);
  const downloading = page.waitForEvent("download");
  await page.getByRole("link", { name: "Download" }).click();
  const file = await downloading;
  expect(file.suggestedFilename()).toBe("gatehouse-recovery-codes.txt");
  const text = await readFile(await file.path(), "utf8");
  for (const code of [...codes, member.email]) expect(text).toContain(code);

  await page.getByRole("link", { name: "I’ve saved them" }).click();
  await expect(page).toHaveURL("/settings/security");
  await expect(apps(page).getByText("Work phone")).toBeVisible();
  await expect(page.getByText("10 codes left")).toBeVisible();

  await page.context().clearCookies();
  await page.goto("/workspaces?sort=name");
  await page.getByLabel("Email").fill(member.email);
  await page.getByLabel("Password").fill(member.password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await expect(heading(page, "Enter your code")).toBeVisible();
  await expectWellMade(page);

  const [wrong = ""] = wrongCodesOf(app);
  await enterCode(page, wrong);
  const summary = page.getByRole("alert");
  await expect(summary).toContainText("That code is incorrect");
  await expect(summary).toBeFocused();
  await expect(page.getByLabel("6-digit code")).toHaveValue("");
  await expect(page.getByLabel("6-digit code")).toHaveAccessibleDescription(/That code is incorrect/);
  await enterCode(page, app.used);
  await expect(summary).toContainText("That code was already used");
  await enterCode(page, codeOf(app, 1).replace(/^.../, "$& "));
  await expect(page).toHaveURL("/workspaces?sort=name");
});

test("a person with several authenticator apps can choose one of them", async ({ page, member }) => {
  const [, tablet] = await enroll(member, "Phone", "Tablet");
  await signIn(page, member);
  await expect(page.getByRole("group", { name: "Which app shows the code?" })).toBeVisible();
  await page.getByRole("radio", { name: "Phone" }).check();
  await page.getByRole("radio", { name: "Tablet" }).check();
  await enterCode(page, codeOf(tablet as AuthenticatorApp));
  await expect(heading(page, "Home")).toBeVisible();
});

test("the second-step challenge works with the keyboard only", async ({ page, member }) => {
  const [app] = await enroll(member, "Phone");
  await signIn(page, member);
  const field = page.getByLabel("6-digit code");
  await expect(field).toBeFocused();
  await expect(field).toHaveAttribute("autocomplete", "one-time-code");
  await expect(field).toHaveAttribute("inputmode", "numeric");
  await page.keyboard.press("Tab");
  await expect(page.getByRole("button", { name: "Verify" })).toBeFocused();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("link", { name: /^Use a recovery code/ })).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: /^Approve on your phone/ })).toBeFocused();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: /^Use a recovery code/ })).toBeFocused();
  await field.focus();
  await page.keyboard.type(codeOf(app));
  await page.keyboard.press("Enter");
  await expect(heading(page, "Home")).toBeVisible();
});

test("buttons copy the authenticator key and the recovery codes", async ({ page, context, member }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await signIn(page, member, { at: "/login?returnUrl=%2Fmfa%2Fenroll" });
  await page.getByRole("button", { name: "Set up app" }).click();
  await page.getByRole("button", { name: "Copy Key" }).click();
  await expect(page.getByRole("button", { name: "Copied Key" })).toBeVisible();
  const secret = await page.evaluate(() => navigator.clipboard.readText());
  expect(secret).toMatch(/^[A-Z2-7]{32}$/);
  await expect(page.getByRole("link", { name: "Open it" })).toHaveAttribute(
    "href",
    new RegExp(`^otpauth://totp/Gatehouse:.*secret=${secret}`),
  );
  await enterCode(page, codeOf({ secret }));
  await page.getByRole("button", { name: "Copy" }).click();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  expect(copied.split("\n")).toHaveLength(10);
  await expect(page.getByRole("button", { name: "Print" })).toBeVisible();
});
