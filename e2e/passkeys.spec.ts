import { createClient } from "@supabase/supabase-js";
import { Client } from "pg";
import type { Page } from "playwright/test";
import { readStack } from "../scripts/test/stack.ts";
import { addAuthenticator } from "./authenticator.ts";
import { enter, expect, expectWellMade, signIn, test } from "./test.ts";

const stack = readStack();
const { admin } = createClient(stack.supabase.url, stack.supabase.secretKey, {
  auth: { persistSession: false, autoRefreshToken: false },
}).auth;

const passkeyButton = (page: Page) => page.getByRole("button", { name: "Sign in with a passkey" });
const card = (page: Page) => page.locator("#passkeys");

/** Adds a passkey for the signed-in person on the security page. */
async function addPasskey(page: Page): Promise<void> {
  await page.goto("/settings/security/passkeys/new");
  await page.getByRole("button", { name: "Add passkey" }).click();
  await expect(card(page).getByRole("status")).toContainText("Passkey added");
}

async function signOut(page: Page): Promise<void> {
  await page.context().clearCookies();
}

/**
 * Disables passkey autofill, so that only the button asks for a passkey. Otherwise, an authenticator that responds
 * immediately would answer the autofill as well.
 */
async function withoutAutofill(page: Page): Promise<void> {
  await page.addInitScript(() => {
    PublicKeyCredential.isConditionalMediationAvailable = async () => false;
  });
}

/** Opens the sign-in page and waits until its email field offers passkeys. */
async function openSignIn(page: Page, at = "/login"): Promise<void> {
  const offered = page.waitForResponse((response) => response.url().endsWith("/login/passkey/options"));
  await page.goto(at);
  expect((await offered).status()).toBe(200);
  await expect(passkeyButton(page)).toBeEnabled();
}

test("a passkey can be added and used to sign in with the keyboard only, and the sign-in continues to its destination", async ({
  page,
  member,
}) => {
  await addAuthenticator(page);
  await enter(page, member, "/settings/security");
  await page.getByRole("link", { name: "Add passkey" }).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "Add a passkey" })).toBeVisible();
  await expectWellMade(page);
  const add = page.getByRole("button", { name: "Add passkey" });
  await expect(add).toBeEnabled();
  for (let press = 0; press < 5 && !(await add.evaluate((node) => node === document.activeElement)); press += 1) {
    await page.keyboard.press("Tab");
  }
  await expect(add).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL("/settings/security#passkeys");
  await expect(card(page).getByRole("status")).toContainText("Passkey added");
  await expect(card(page).getByRole("listitem")).toHaveText(/Chrome on Linux\s*Added just now · Never used/);

  await signOut(page);
  await withoutAutofill(page);
  await page.goto("/workspaces?sort=name");
  await expect(passkeyButton(page)).toBeEnabled();
  await page.getByRole("button", { name: "Sign in", exact: true }).focus();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("button", { name: "Email me a code" })).toBeFocused();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("button", { name: "Forgot password?" })).toBeFocused();
  await page.keyboard.press("Tab");
  await expect(passkeyButton(page)).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL("/workspaces?sort=name");

  await page.goto("/settings/security");
  await expect(card(page).getByRole("listitem")).toContainText("Last used just now");
  await expect(page.locator("#activity")).toContainText("Passkey");
});

test("a passkey chosen in the email field's autofill signs in", async ({ page, member }) => {
  await addAuthenticator(page);
  await enter(page, member);
  await addPasskey(page);
  await signOut(page);
  await page.goto("/workspaces");
  await expect(page.getByRole("heading", { name: "Workspaces", level: 1 })).toBeVisible();
  const session = await (await page.request.get("/api/v1/auth/session")).json();
  expect(session).toMatchObject({ user: { email: member.email }, aal: "aal1" });
});

test("the passkey button cancels autofill before it prompts for a passkey, and reuses the challenge", async ({
  page,
  member,
}) => {
  const authenticator = await addAuthenticator(page);
  await enter(page, member);
  await addPasskey(page);
  await signOut(page);
  await authenticator.present(false);
  const seen: string[] = [];
  await page.exposeFunction("note", (line: string) => void seen.push(line));
  await page.addInitScript(() => {
    const { credentials } = navigator;
    const note = (window as unknown as { note: (line: string) => void }).note;
    const get = credentials.get.bind(credentials);
    credentials.get = (options) => {
      const kind = options?.mediation ?? "modal";
      note(`begin ${kind}`);
      options?.signal?.addEventListener("abort", () => note(`abort ${kind}`));
      return get(options);
    };
  });
  let asked = 0;
  page.on("request", (request) => {
    if (request.url().endsWith("/login/passkey/options")) asked += 1;
  });
  await openSignIn(page);
  await expect.poll(() => seen).toEqual(["begin conditional"]);
  await passkeyButton(page).click();
  await expect.poll(() => seen).toEqual(["begin conditional", "abort conditional", "begin modal"]);
  await expect(page.getByText("Waiting for your passkey…")).toBeVisible();
  expect(asked).toBe(1);
});

test("a dismissed passkey prompt is reported, and the typed values stay", async ({ page }) => {
  await addAuthenticator(page);
  await openSignIn(page);
  await page.getByLabel("Email").fill("ada@example.com");
  await passkeyButton(page).click();
  await expect(page.getByRole("alert")).toContainText("No passkey was used", { timeout: 20_000 });
  await expect(page.getByLabel("Email")).toHaveValue("ada@example.com");
  await expect(passkeyButton(page)).toBeFocused();
});

test("a passkey that no longer belongs to an account is reported, and the browser removes it", async ({
  page,
  member,
}) => {
  const authenticator = await addAuthenticator(page);
  await enter(page, member);
  await addPasskey(page);
  const { data: users } = await admin.listUsers({ perPage: 1_000 });
  const userId = users.users.find(({ email }) => email === member.email)?.id ?? "";
  const { data: passkeys, error } = await admin.passkey.listPasskeys({ userId });
  if (error) throw error;
  await admin.passkey.deletePasskey({ userId, passkeyId: passkeys[0]?.id ?? "" });
  await signOut(page);
  await withoutAutofill(page);
  await page.goto("/login");
  await passkeyButton(page).click();
  await expect(page.getByRole("alert")).toContainText("No account here has this passkey");
  await expect.poll(authenticator.credentials).toEqual([]);
});

test("an expired passkey challenge is replaced by a fresh one", async ({ page, member }) => {
  await addAuthenticator(page);
  await enter(page, member);
  await addPasskey(page);
  await signOut(page);
  await withoutAutofill(page);
  // The challenge has expired by the time the browser responds.
  await page.route(
    "**/login/passkey/options",
    async (route) => {
      const response = await route.fetch();
      await expire((await response.json()).challengeId);
      await route.fulfill({ response });
    },
    { times: 1 },
  );
  await page.goto("/login");
  await passkeyButton(page).click();
  await expect(page.getByRole("alert")).toContainText("The request timed out");
  await passkeyButton(page).click();
  await expect(page).toHaveURL("/");
});

async function expire(challengeId: string): Promise<void> {
  const database = new Client({ connectionString: stack.supabase.dbUrl });
  await database.connect();
  const past = "update auth.webauthn_challenges set expires_at = now() - interval '1 second' where id = $1";
  await database.query(past, [challengeId]);
  await database.end();
}

test("a user can rename one of two passkeys, and deleting the other also removes it from the device", async ({
  page,
  member,
}) => {
  const laptop = await addAuthenticator(page);
  await enter(page, member);
  await addPasskey(page);
  await card(page).getByRole("link", { name: "Rename" }).click();
  await expect(page.getByLabel("Name")).toHaveValue("Chrome on Linux");
  await page.getByLabel("Name").fill("");
  await page.getByRole("button", { name: "Rename passkey" }).click();
  await expect(page.getByRole("alert")).toBeFocused();
  await expect(page.getByLabel("Name")).toHaveAccessibleDescription("Give the passkey a name");
  await expectWellMade(page);
  await page.getByLabel("Name").fill("Laptop");
  await page.getByRole("button", { name: "Rename passkey" }).click();
  await expect(card(page).getByRole("status")).toContainText("Passkey renamed.");

  const held = await laptop.credentials();
  await laptop.remove();
  const phone = await addAuthenticator(page);
  await addPasskey(page);
  await expect(card(page).getByRole("listitem")).toHaveCount(2);
  await expect(card(page).getByRole("listitem").first()).toContainText("Laptop");
  expect(held).toHaveLength(1);

  await signOut(page);
  await page.goto("/settings/security");
  await expect(card(page).getByRole("listitem").nth(1)).toContainText("Last used just now");
  await card(page).getByRole("link", { name: "Delete Chrome on Linux" }).click();
  await expect(page.getByText("You’ll no longer be able to sign in with the passkey")).toBeVisible();
  await expectWellMade(page);
  await page.getByRole("button", { name: "Delete passkey" }).click();
  await expect(card(page).getByRole("status")).toContainText("Passkey deleted");
  await expect(card(page).getByRole("listitem")).toHaveCount(1);
  await expect.poll(phone.credentials).toEqual([]);
});

test("a device that has a passkey for the account cannot create a second one", async ({ page, member }) => {
  await addAuthenticator(page);
  await enter(page, member);
  await addPasskey(page);
  await page.goto("/settings/security/passkeys/new");
  await page.getByRole("button", { name: "Add passkey" }).click();
  await expect(page.getByRole("alert")).toContainText("This device already has a passkey for your account");
});

test.describe("unavailable passkeys", () => {
  for (const [what, script, words] of [
    [
      "a browser without passkey support",
      "delete window.PublicKeyCredential",
      "This browser doesn’t support passkeys.",
    ],
    [
      "an insecure address",
      "Object.defineProperty(window, 'isSecureContext', { value: false })",
      "Passkeys need a secure connection",
    ],
  ] as const) {
    test(`the sign-in page reports ${what}, and the password still works`, async ({ page, member }) => {
      await page.addInitScript(script);
      await page.goto("/login");
      await expect(page.getByText(words)).toBeVisible();
      await expect(passkeyButton(page)).toBeDisabled();
      await signIn(page, member);
      await expect(page).toHaveURL("/");
      await page.goto("/settings/security/passkeys/new");
      await expect(page.getByText(words)).toBeVisible();
    });
  }
});

test("after an email change, opening the security settings updates the name of the account's passkey in the browser", async ({
  page,
  member,
}) => {
  const authenticator = await addAuthenticator(page);
  await enter(page, member);
  await addPasskey(page);
  const [held] = await authenticator.credentials();
  expect(held).toMatchObject({ rpId: expect.any(String), userName: member.email });
  const { data: users } = await admin.listUsers({ perPage: 1_000 });
  const user = users.users.find(({ email }) => email === member.email);
  const renamed = `renamed-${member.email}`;
  await admin.updateUserById(user?.id ?? "", { email: renamed, email_confirm: true });
  await page.goto("/settings/security");
  await expect.poll(async () => (await authenticator.credentials())[0]?.userName).toBe(renamed);
});
