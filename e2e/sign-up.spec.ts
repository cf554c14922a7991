import { confirmationLink } from "./mailbox.ts";
import { expect, expectWellMade, signIn, test } from "./test.ts";

test("a new person signs up, confirms by email, signs out and signs in", async ({ page, newcomer }) => {
  await page.goto("/signup");
  await expectWellMade(page);
  await page.getByLabel("Email").fill(newcomer.email);
  await page.getByLabel("Password").fill(newcomer.password);
  await page.getByRole("button", { name: "Create account" }).click();

  await expect(page.getByRole("heading", { name: "Check your email" })).toBeVisible();
  await expect(page.getByText(newcomer.email)).toBeVisible();
  expect(page.url()).not.toContain("@");
  await expectWellMade(page);

  const link = await confirmationLink(newcomer.email);
  await page.request.get(link);
  await page.request.head(link);
  await page.goto(link);
  await expect(page.getByRole("heading", { name: "Confirm your email" })).toBeVisible();
  await expectWellMade(page);
  await page.getByRole("button", { name: "Confirm and sign in" }).click();

  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  await expect(page.getByRole("link", { name: /workspace/ }).filter({ hasText: "Personal" })).toBeVisible();
  await expectWellMade(page);

  await page.getByRole("button", { name: "Account menu" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
  await page.goto("/");
  await expect(page).toHaveURL("/login");

  await signIn(page, newcomer);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();

  await page.goto(link);
  await expect(page.getByRole("heading", { name: "This link no longer works" })).toBeVisible();
});
