import { chromiumOnly } from "./firefox.ts";
import { enter, expect, test } from "./test.ts";

test.use({ colorScheme: "light" });

test("the color scheme follows the system until the person chooses one, and the choice is kept", async ({ page }) => {
  await page.goto("/login?returnUrl=%2Fworkspaces");
  const background = async () => {
    await page.waitForLoadState();
    return page.locator("body").evaluate((body) => getComputedStyle(body).backgroundColor);
  };
  const light = await background();
  await page.getByRole("button", { name: "Dark" }).click();
  await expect(page).toHaveURL("/login?returnUrl=%2Fworkspaces");
  await expect(page.getByRole("button", { name: "Dark" })).toHaveAttribute("aria-pressed", "true");
  const dark = await background();
  expect(dark).not.toBe(light);
  await page.goto("/signup");
  expect(await background()).toBe(dark);
  await page.getByRole("button", { name: "System" }).click();
  await expect(page.getByRole("button", { name: "System" })).toHaveAttribute("aria-pressed", "true");
  expect(await background()).toBe(light);
});

test("forced colors still distinguish the selected option", chromiumOnly.forcedColors, async ({ page, member }) => {
  await page.emulateMedia({ forcedColors: "active" });
  await enter(page, member, "/settings/security");
  const outlineOf = (name: string) =>
    page
      .getByRole("main")
      .getByRole("link", { name, exact: true })
      .evaluate((link) => getComputedStyle(link).outlineStyle);
  expect(await outlineOf("Security")).toBe("solid");
  expect(await outlineOf("Profile")).toBe("none");
});
