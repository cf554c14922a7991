import type { Page } from "playwright/test";
import { enter, expect, test } from "./test.ts";

const renewed = "quite another password";
const notice = (page: Page, text: string) => page.getByRole("status").filter({ hasText: text });

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
