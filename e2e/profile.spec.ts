import { enter, expect, expectAccessible, expectFitsSmallScreens, test } from "./test.ts";

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });

    test("people edit their profile, and invalid input stays in the form", async ({ page, member }) => {
      await enter(page, member);
      await page.getByRole("button", { name: "Account menu" }).click();
      await page.getByRole("link", { name: "Settings" }).click();
      await expect(page.getByRole("heading", { name: "Profile", level: 1 })).toBeVisible();
      if (javaScriptEnabled) await expectAccessible(page);
      await expectFitsSmallScreens(page);

      await page.getByLabel("Name").fill("  Ada   Lovelace ");
      await page.getByLabel("Profile picture URL").fill("http://pictures.example/ada.png");
      await page.getByRole("button", { name: "Save" }).click();
      await expect(page.getByRole("alert")).toContainText("begins with https://");
      await expect(page.getByLabel("Profile picture URL")).toHaveAttribute("aria-invalid", "true");
      await expect(page.getByLabel("Name")).toHaveValue(/Ada/);
      if (javaScriptEnabled) await expectAccessible(page);
      await page.getByRole("link", { name: "begins with https://" }).click();
      await expect(page.getByLabel("Profile picture URL")).toBeFocused();

      await page.getByLabel("Profile picture URL").fill("https://pictures.example/ada.png");
      await page.getByRole("button", { name: "Save" }).click();
      await expect(page.getByRole("status").filter({ hasText: "Profile saved." })).toBeVisible();
      await expect(page.getByLabel("Name")).toHaveValue("Ada Lovelace");
      await expect(page.getByRole("button", { name: "Account menu" })).toContainText("Ada Lovelace");
      await page.reload();
      await expect(page.getByText("Profile saved.")).toBeHidden();
      await expect(page.getByLabel("Profile picture URL")).toHaveValue("https://pictures.example/ada.png");

      await page.getByLabel("Profile picture URL").fill("");
      const oneWideLetter = `Z${"\u0489".repeat(60)}`;
      await page.getByLabel("Name").fill(oneWideLetter);
      await page.getByRole("button", { name: "Save" }).click();
      await expect(page.getByLabel("Profile picture URL")).toHaveValue("");
      await expect(page.getByLabel("Name")).toHaveValue(oneWideLetter);
      await expectFitsSmallScreens(page);
    });
  });
}

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
