import type { Page } from "playwright/test";
import { passMailPause } from "../scripts/test/people.ts";
import { confirmationLink, mailsTo } from "./mailbox.ts";
import { expect, expectAccessible, expectFitsSmallScreens, signIn, test } from "./test.ts";

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });
    const checkPage = async (page: Page) => {
      if (javaScriptEnabled) await expectAccessible(page);
      await expectFitsSmallScreens(page);
    };

    test("a new person signs up, confirms by email, signs out and signs in", async ({ page, newcomer }) => {
      await page.goto("/signup");
      await checkPage(page);
      await page.getByLabel("Email").fill(newcomer.email);
      await page.getByLabel("Password").fill(newcomer.password);
      await page.getByRole("button", { name: "Create account" }).click();

      await expect(page.getByRole("heading", { name: "Check your email" })).toBeVisible();
      await expect(page.getByText(newcomer.email)).toBeVisible();
      expect(page.url()).not.toContain("@");
      await checkPage(page);

      const link = await confirmationLink(newcomer.email);
      await page.request.get(link);
      await page.request.head(link);
      await page.goto(link);
      await expect(page.getByRole("heading", { name: "Confirm your email" })).toBeVisible();
      await checkPage(page);
      await page.getByRole("button", { name: "Confirm and sign in" }).click();

      await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
      await expect(page.getByRole("link", { name: /workspace/ }).filter({ hasText: "Personal" })).toBeVisible();
      await checkPage(page);

      await page.getByRole("button", { name: "Account menu" }).click();
      await page.getByRole("button", { name: "Sign out" }).click();
      await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
      await page.goto("/");
      await expect(page).toHaveURL("/login");

      await signIn(page, newcomer);
      await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();

      await page.goto(link);
      await expect(page.getByRole("heading", { name: "This link no longer works" })).toBeVisible();
      await checkPage(page);
    });
  });
}

test("the destination survives sign-up and its confirmation email", async ({ page, newcomer }) => {
  await page.goto("/workspaces?from=invitation");
  await page.getByRole("link", { name: "Create an account" }).click();
  await page.getByLabel("Email").fill(newcomer.email);
  await page.getByLabel("Password").fill(newcomer.password);
  await page.getByRole("button", { name: "Create account" }).click();
  await expect(page.getByRole("heading", { name: "Check your email" })).toBeVisible();
  await page.goto(await confirmationLink(newcomer.email));
  await page.getByRole("button", { name: "Confirm and sign in" }).click();
  await expect(page).toHaveURL("/workspaces?from=invitation");
});

test("signing up with a registered email gets the same response as with an unknown one, and no email is sent", async ({
  page,
  member,
}) => {
  await page.goto("/signup");
  await page.getByLabel("Email").fill(member.email);
  await page.getByLabel("Password").fill("another password 1234");
  await page.getByRole("button", { name: "Create account" }).click();
  await expect(page.getByRole("heading", { name: "Check your email" })).toBeVisible();
  expect(await mailsTo(member.email)).toHaveLength(0);

  await signIn(page, member);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
});

test("the confirmation link is resent on request and leads to the same destination", async ({ page, newcomer }) => {
  await page.goto("/signup?returnUrl=%2Fworkspaces%3Ffrom%3Dinvitation");
  await page.getByLabel("Email").fill(newcomer.email);
  await page.getByLabel("Password").fill(newcomer.password);
  await page.getByRole("button", { name: "Create account" }).click();
  await confirmationLink(newcomer.email);
  await passMailPause(newcomer.email);
  await page.getByRole("button", { name: "Resend email" }).click();
  await expect(page.getByRole("status")).toContainText("If this address isn’t confirmed yet");
  await page.goto(await confirmationLink(newcomer.email, { after: 1 }));
  await page.getByRole("button", { name: "Confirm and sign in" }).click();
  await expect(page).toHaveURL("/workspaces?from=invitation");
});

test("a person who confirms an account in a different browser is asked to choose a password", async ({
  page,
  browser,
  newcomer,
}) => {
  const elsewhere = await (await browser.newContext()).newPage();
  await elsewhere.goto("/signup?returnUrl=%2Fworkspaces");
  await elsewhere.getByLabel("Email").fill(newcomer.email);
  await elsewhere.getByLabel("Password").fill("somebody else's password");
  await elsewhere.getByRole("button", { name: "Create account" }).click();
  await page.goto(await confirmationLink(newcomer.email));
  await page.getByRole("button", { name: "Confirm and sign in" }).click();
  await expect(page.getByRole("heading", { name: "Choose your password" })).toBeVisible();
  await expectAccessible(page);
  await expectFitsSmallScreens(page);
  await page.getByLabel("New password").fill("short");
  await page.getByRole("button", { name: "Change password" }).click();
  await expect(page.getByRole("alert")).toContainText("at least 8 characters");
  await page.getByLabel("New password").fill(newcomer.password);
  await page.getByRole("button", { name: "Change password" }).click();
  await page.getByRole("link", { name: "Continue" }).click();
  await expect(page).toHaveURL("/workspaces");
});

test("a person with an unconfirmed account is asked to confirm the email and is not signed in", async ({
  page,
  newcomer,
}) => {
  await page.goto("/signup");
  await page.getByLabel("Email").fill(newcomer.email);
  await page.getByLabel("Password").fill(newcomer.password);
  await page.getByRole("button", { name: "Create account" }).click();
  await signIn(page, newcomer);
  await expect(page.getByRole("heading", { name: "Check your email" })).toBeVisible();
  await expect(page.getByText("isn’t confirmed yet")).toBeVisible();
});

test("a weak password is rejected with an error at its field, and the typed email is kept", async ({
  page,
  newcomer,
}) => {
  await page.goto("/signup");
  await page.getByLabel("Email").fill(newcomer.email);
  await page.getByLabel("Password").fill("seven77");
  await page.getByRole("button", { name: "Create account" }).click();
  await expect(page.getByRole("alert")).toContainText("at least 8 characters");
  await expect(page.getByLabel("Password")).toHaveAttribute("aria-invalid", "true");
  await expect(page.getByLabel("Email")).toHaveValue(newcomer.email);
  await expect(page.getByLabel("Password")).toHaveValue("");
  await expectAccessible(page);
});
