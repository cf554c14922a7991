import type { Page } from "playwright/test";
import { readStack } from "../scripts/test/stack.ts";
import { mailsTo } from "./mailbox.ts";
import { enter, expect, expectWellMade, signIn, test } from "./test.ts";

const { oidc, base } = readStack();

/** Returns the labels of the buttons on the sign-in page that lead to a provider, without "Continue with". */
async function providersOf(page: Page): Promise<string[]> {
  await page.goto("/login");
  const names = await page.getByRole("button", { name: /^Continue with/ }).allInnerTexts();
  return names.map((name) => name.replace(/^Continue with\s*/, "").trim());
}

/** Enters an email on the provider's page, or cancels there. */
async function answerProvider(page: Page, { email, cancel = false }: { email: string; cancel?: boolean }) {
  await page.waitForURL((url) => url.origin === oidc);
  await page.getByLabel("Email").fill(email);
  await page.getByRole("button", { name: cancel ? "Cancel" : "Continue", exact: true }).click();
  await page.waitForURL((url) => url.origin === base);
}

const providerButton = (page: Page, name: string) => page.getByRole("button", { name: `Continue with ${name}` });
const linkedAccounts = (page: Page) => page.locator("#linked-accounts");
const identity = (page: Page, email: string) => linkedAccounts(page).getByRole("paragraph").filter({ hasText: email });

test("signing in with a provider lists this provider first and marks it as last used", async ({
  page,
  context,
  newcomer,
}) => {
  const name = (await providersOf(page)).at(-1) ?? "";
  await page.goto("/login?returnUrl=%2Fworkspaces");
  await providerButton(page, name).click();
  await answerProvider(page, newcomer);
  await expect(page).toHaveURL("/workspaces");
  await page.getByRole("button", { name: "Account menu" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page).toHaveURL("/login");
  const first = page.getByRole("button", { name: /^Continue with/ }).first();
  await expect(first).toHaveText(/Last used/);
  await expect(first).toContainText(name);
  const hint = (await context.cookies()).find((cookie) => cookie.name === "gh_last_method");
  expect(hint).toMatchObject({ httpOnly: true, sameSite: "Lax", path: "/" });
  expect(decodeURIComponent(hint?.value ?? "")).toMatch(/^oauth:[a-z]+$/);
});

test("a provider callback opened in another browser is rejected", async ({ page, browser, newcomer }) => {
  const [name = ""] = await providersOf(page);
  let begun = "";
  page.on("request", (request) => {
    if (request.url().includes("client_id=")) begun = request.url();
  });
  await providerButton(page, name).click();
  await expect.poll(() => begun).toContain("client_id=");
  // The other browser gets the URL of the provider's page, as in a login CSRF attack.
  const elsewhere = await (await browser.newContext()).newPage();
  await elsewhere.goto(begun);
  await answerProvider(elsewhere, newcomer);
  await expect(elsewhere).toHaveURL(/\/auth\/callback\?.*code=/);
  await expect(elsewhere.getByRole("heading", { name: "This sign-in can’t be finished here" })).toBeVisible();
  await expectWellMade(elsewhere);
  await elsewhere.goto(`${base}/`);
  await expect(elsewhere).toHaveURL(/\/login/);
  await elsewhere.context().close();
});

test("a provider account can be linked, used to sign in, and unlinked if another sign-in method remains", async ({
  page,
  member,
  newcomer,
}) => {
  const [name = ""] = await providersOf(page);
  await enter(page, member, "/settings/security");
  await page.getByRole("button", { name: `Link ${name} account` }).click();
  await answerProvider(page, newcomer);
  await expect(page).toHaveURL(/\/settings\/security#linked-accounts$/);
  await expect(linkedAccounts(page).getByRole("status")).toContainText(`Your ${name} account is linked`);
  await expect(identity(page, newcomer.email)).toBeVisible();
  await expectWellMade(page);
  await expect
    .poll(async () => (await mailsTo(member.email)).map(({ subject }) => subject))
    .toContain("An account was linked to your Gatehouse account");

  await page.getByRole("button", { name: "Account menu" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await providerButton(page, name).click();
  await answerProvider(page, newcomer);
  await expect(page).toHaveURL("/");
  await page.goto("/settings/security");
  await expect(identity(page, newcomer.email)).toBeVisible();

  await linkedAccounts(page)
    .getByRole("link", { name: `Unlink ${newcomer.email}` })
    .click();
  await expect(page.getByRole("heading", { name: `Unlink ${name}` })).toBeVisible();
  await expectWellMade(page);
  await page.getByRole("button", { name: "Unlink" }).click();
  await expect(linkedAccounts(page).getByRole("status")).toContainText("is unlinked");
  await expect(identity(page, newcomer.email)).toHaveCount(0);
});

test("a provider callback for another account asks before replacing the active account", async ({
  page,
  context,
  member,
  newcomer,
}) => {
  const [name = ""] = await providersOf(page);
  await providerButton(page, name).click();
  await page.waitForURL((url) => url.origin === oidc);
  const tab = await context.newPage();
  await signIn(tab, member);
  await expect(tab).toHaveURL("/");

  await answerProvider(page, newcomer);
  await expect(page.getByRole("heading", { name: `Continue as ${newcomer.email}?` })).toBeVisible();
  await expect(page.getByText(`You’re signed in as ${member.email}`)).toBeVisible();
  await tab.reload();
  await expect(tab).toHaveURL("/");
  await page.getByRole("button", { name: `Continue as ${newcomer.email}` }).click();
  await expect(page).toHaveURL("/");
  const session = await page.request.get("/api/v1/auth/session");
  expect(await session.json()).toMatchObject({ user: { email: newcomer.email } });
});
