import { confirmationLink, mailsTo } from "./mailbox.ts";
import { enter, expect, expectAccessible, expectFitsSmallScreens, signIn, test } from "./test.ts";

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });

    test("a forgotten password is replaced through an email, and other devices are signed out", async ({
      page,
      browser,
      member,
    }) => {
      const elsewhere = await (await browser.newContext()).newPage();
      await enter(elsewhere, member);
      await expect(elsewhere.getByRole("heading", { name: "Home" })).toBeVisible();

      await page.goto("/login");
      await page.getByRole("link", { name: "Forgot password?" }).click();
      if (javaScriptEnabled) await expectAccessible(page);
      await page.getByLabel("Email").fill(member.email);
      await page.getByRole("button", { name: "Send reset link" }).click();
      await expect(page.getByRole("heading", { name: "Check your email" })).toBeVisible();
      await expectFitsSmallScreens(page);

      await page.goto(await confirmationLink(member.email));
      await page.getByRole("button", { name: "Continue" }).click();
      await expect(page.getByRole("heading", { name: "Choose a new password" })).toBeVisible();
      if (javaScriptEnabled) await expectAccessible(page);
      await expectFitsSmallScreens(page);
      await page.getByLabel("New password").fill("short");
      await page.getByRole("button", { name: "Change password" }).click();
      await expect(page.getByRole("alert")).toContainText("at least 8 characters");
      const renewed = { ...member, password: `quite another ${crypto.randomUUID()}` };
      await page.getByLabel("New password").fill(renewed.password);
      await page.getByRole("button", { name: "Change password" }).click();
      await expect(page.getByRole("heading", { name: "Password changed" })).toBeVisible();
      await page.getByRole("link", { name: "Continue" }).click();
      await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();

      await elsewhere.goto("/workspaces");
      await expect(elsewhere).toHaveURL(/\/login/);
      await signIn(elsewhere, member);
      await expect(elsewhere.getByRole("alert")).toBeVisible();
      await signIn(elsewhere, renewed);
      await expect(elsewhere.getByRole("heading", { name: "Home" })).toBeVisible();
    });
  });
}

test("a password reset for an unknown email gets the same response as for a known one, and no email is sent", async ({
  page,
  newcomer,
}) => {
  await page.goto("/forgot-password");
  await page.getByLabel("Email").fill(newcomer.email);
  await page.getByRole("button", { name: "Send reset link" }).click();
  await expect(page.getByRole("heading", { name: "Check your email" })).toBeVisible();
  expect(await mailsTo(newcomer.email)).toHaveLength(0);
});
