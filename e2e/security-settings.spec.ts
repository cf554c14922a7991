import type { Page } from "playwright/test";
import { linkOfMail } from "./mailbox.ts";
import { enter, expect, expectAccessible, expectFitsSmallScreens, signIn, test } from "./test.ts";

const renewed = "quite another password";
const notice = (page: Page, text: string) => page.getByRole("status").filter({ hasText: text });

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });
    const check = async (page: Page) => {
      if (javaScriptEnabled) await expectAccessible(page);
      await expectFitsSmallScreens(page);
    };

    test("changing a password signs other devices out and notifies the owner", async ({ page, browser, member }) => {
      const elsewhere = await (await browser.newContext()).newPage();
      await enter(elsewhere, member);
      await expect(elsewhere.getByRole("heading", { name: "Home" })).toBeVisible();
      await enter(page, member, "/.well-known/change-password");
      await expect(page.getByRole("heading", { name: "Change password", level: 1 })).toBeVisible();

      await page.getByLabel("New password").fill("short");
      await page.getByRole("button", { name: "Change password" }).click();
      await expect(page.getByRole("alert")).toContainText("at least 8 characters");
      await expect(page.getByLabel("New password")).toHaveValue("");
      await check(page);
      await page.getByLabel("New password").fill(renewed);
      await page.getByRole("button", { name: "Change password" }).click();

      await expect(notice(page, "Password changed.")).toBeVisible();
      expect(await linkOfMail(member.email, "Your Gatehouse password was changed")).toContain("/settings/security");
      await elsewhere.goto("/workspaces");
      await expect(elsewhere).toHaveURL(/\/login/);
      await expect(page.locator("#activity")).toContainText("Changed the password");
    });

    test("a device can sign out one other device, and then all other devices together", async ({
      page,
      browser,
      member,
    }) => {
      const others = await Promise.all(
        [1, 2, 3].map(async () => (await browser.newContext({ userAgent: "Mozilla/5.0 Firefox/127.0" })).newPage()),
      );
      for (const other of others) {
        await signIn(other, member);
        await expect(other.getByRole("heading", { name: "Home" })).toBeVisible();
      }
      await signIn(page, member);
      await page.goto("/settings/security");
      const sessions = page.locator("#sessions");
      await expect(sessions.getByRole("listitem")).toHaveCount(4);
      await expect(sessions.getByRole("listitem").first()).toContainText("This device");
      await expect(sessions.getByRole("listitem").first().getByRole("button")).toHaveCount(0);

      await sessions
        .getByRole("button", { name: /^Sign out Firefox/ })
        .first()
        .click();
      await expect(notice(page, "Device signed out.")).toBeVisible();
      await expect(sessions.getByRole("listitem")).toHaveCount(3);
      await check(page);
      await sessions.getByRole("button", { name: "Sign out all others" }).click();
      await expect(notice(page, "All other devices are signed out.")).toBeVisible();
      await expect(sessions.getByRole("listitem")).toHaveCount(1);
      await expect(sessions.getByRole("button", { name: "Sign out all others" })).toHaveCount(0);
      for (const other of others) {
        await other.goto("/workspaces");
        await expect(other).toHaveURL(/\/login/);
      }
    });

    test("recent activity is paginated", async ({ page, member }) => {
      for (let visit = 0; visit < 3; visit += 1) {
        await signIn(page, member);
        await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
        await page.context().clearCookies();
      }
      await signIn(page, member);
      await page.goto("/settings/security");
      await page.locator("#activity").getByRole("link", { name: "View all activity" }).click();
      await expect(page.getByRole("heading", { name: "Activity", level: 1 })).toBeVisible();
      await expect(page.getByText("Signed in")).toHaveCount(4);
      await expect(page.locator("time").first()).toHaveAttribute("title", /UTC$/);
      await page.goto("/settings/security/activity?limit=3");
      await page.getByRole("link", { name: "Older" }).click();
      await expect(page.getByText("Signed in")).toHaveCount(1);
      await expect(page.getByRole("link", { name: "Older" })).toHaveCount(0);
      await check(page);
      await page.getByRole("link", { name: "Newest" }).click();
      await expect(page.getByText("Signed in")).toHaveCount(4);
    });
  });
}

test("a password is changed with the keyboard only", async ({ page, member }) => {
  await enter(page, member, "/settings/security");
  await tabTo(page, () => document.activeElement?.getAttribute("href") === "/settings/security/password");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "Change password", level: 1 })).toBeVisible();
  await tabTo(page, () => document.activeElement?.getAttribute("name") === "password");
  await page.keyboard.type(renewed);
  await page.keyboard.press("Enter");
  await expect(notice(page, "Password changed.")).toBeVisible();
});

async function tabTo(page: Page, reached: () => boolean): Promise<void> {
  for (let presses = 0; presses < 60; presses += 1) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(reached)) return;
  }
  throw new Error("The keyboard does not reach it.");
}
