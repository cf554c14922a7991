import { enter, expect, test } from "./test.ts";

test("no page loads a profile picture directly from the server that hosts it", async ({ page, member }) => {
  const asked: string[] = [];
  page.on("request", (request) => asked.push(request.url()));
  await enter(page, member, "/settings/profile");
  await page.getByLabel("Profile picture URL").fill("https://pictures.example/ada.png");
  await page.getByRole("button", { name: "Save" }).click();
  for (const path of ["/", "/workspaces", "/settings/security"]) await page.goto(path);
  expect(asked.filter((url) => url.includes("pictures.example"))).toEqual([]);
});

test.describe("changing the profile with only the keyboard", () => {
  test("a person changes their name", async ({ page, member }) => {
    await enter(page, member, "/settings/profile");
    const name = page.getByLabel("Name");
    for (let presses = 0; presses < 20; presses += 1) {
      await page.keyboard.press("Tab");
      if (await name.evaluate((field) => field === document.activeElement)) break;
    }
    await expect(name).toBeFocused();
    await page.keyboard.press("Control+A");
    await page.keyboard.type("Grace");
    await page.keyboard.press("Enter");
    await expect(page.getByRole("status").filter({ hasText: "Profile saved." })).toBeVisible();
  });
});
