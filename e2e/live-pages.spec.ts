import { enter, expect, expectWellMade, test } from "./test.ts";

test("double-clicking the submit button submits the form once", async ({ page, member }) => {
  await enter(page, member, "/workspaces");
  await page.getByLabel("Name").fill("Twice");
  await page.getByRole("button", { name: "Create workspace" }).dblclick();
  await expect(page.getByText("Workspace: Twice", { exact: true })).toBeVisible();
  await page.goto("/workspaces");
  await expect(page.getByRole("link", { name: /Twice/ })).toHaveCount(1);
});

test("a form can be submitted again after a response", async ({ page, member }) => {
  await enter(page, member, "/workspaces");
  for (const name of [" ", "  "]) {
    await page.getByLabel("Name").fill(name);
    const answer = page.waitForResponse((response) => response.request().method() === "POST");
    await page.getByRole("button", { name: "Create workspace" }).click();
    expect((await answer).status()).toBe(400);
    await expect(page.getByRole("alert")).toBeFocused();
  }
  await page.getByLabel("Name").fill("Third time");
  await page.getByRole("button", { name: "Create workspace" }).click();
  await expect(page.getByText("Workspace: Third time", { exact: true })).toBeVisible();
});

test("while offline, a form keeps its values and says that nothing was sent; back online, it can be submitted", async ({
  context,
  page,
  member,
}) => {
  await enter(page, member, "/workspaces");
  await page.getByLabel("Name").fill("Offline");
  await context.setOffline(true);
  await page.getByRole("button", { name: "Create workspace" }).click();
  await expect(page.getByRole("alert")).toContainText("This device is offline. Nothing was sent");
  await expect(page.getByLabel("Name")).toHaveValue("Offline");
  await context.setOffline(false);
  await page.getByRole("button", { name: "Create workspace" }).click();
  await expect(page.getByText("Workspace: Offline", { exact: true })).toBeVisible();
});

test("a form that got no response is restored when its page is loaded again", async ({ page, member }) => {
  await enter(page, member, "/workspaces");
  await page.getByRole("link", { name: /Personal/ }).click();
  await page.getByRole("link", { name: "Roles", exact: true }).click();
  await page.getByLabel("Name", { exact: true }).fill("Reader");
  await page.getByLabel("Manage API keys").check();
  const sending = /\/roles\.data/;
  // Responds like a proxy while the server is down.
  await page.route(sending, (route) => route.fulfill({ status: 503, contentType: "text/html", body: "<h1>503</h1>" }));
  await page.getByRole("button", { name: "Create role" }).click();
  await expect(page.getByRole("heading", { name: "Something went wrong on our side" })).toBeVisible();
  const failedAnswer = page.waitForResponse((response) => sending.test(response.url()) && response.status() === 503);
  await page.getByRole("link", { name: "Try again" }).click();
  await failedAnswer;
  await page.unroute(sending);
  await page.getByRole("link", { name: "Try again" }).click();
  await expect(page.getByRole("status").filter({ hasText: "This may not have been saved." })).toBeVisible();
  await expect(page.getByLabel("Name", { exact: true })).toHaveValue("Reader");
  await expect(page.getByLabel("Manage API keys")).toBeChecked();

  await page.getByRole("button", { name: "Create role" }).click();
  await expect(page.getByRole("link", { name: "Reader" })).toBeVisible();
  await expect(page.getByLabel("Name", { exact: true })).toHaveValue("");
});

test("a form can be submitted to a server on the same machine even if the machine is offline", async ({
  page,
  member,
}) => {
  await page.addInitScript(() => Object.defineProperty(navigator, "onLine", { get: () => false }));
  await enter(page, member, "/workspaces");
  await page.getByLabel("Name").fill("On a train");
  await page.getByRole("button", { name: "Create workspace" }).click();
  await expect(page.getByText("Workspace: On a train", { exact: true })).toBeVisible();
});

test("client-side navigation announces the new page, and keyboard focus starts at the top of that page", async ({
  page,
  member,
}) => {
  await enter(page, member, "/workspaces");
  await page.getByRole("link", { name: /Personal/ }).click();
  await page.getByRole("link", { name: "Members", exact: true }).press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "Members" })).toBeVisible();
  await expect(page.getByRole("main")).toBeFocused();
  await expect(page.locator("[aria-live=polite]", { hasText: "Members · " })).toHaveText(await page.title());
  await page.keyboard.press("Tab");
  await expect(page.getByRole("main").getByRole("link").first()).toBeFocused();
});

test("client-side navigation scrolls to the top, and the back button restores the scroll position", async ({
  page,
  member,
}) => {
  await page.setViewportSize({ width: 1100, height: 300 });
  await enter(page, member, "/workspaces");
  await page.getByRole("link", { name: /Personal/ }).click();
  await page.getByRole("link", { name: "AI policy" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "AI policy" })).toBeVisible();
  await page.evaluate("scrollTo(0, 500)");
  const before = await page.evaluate("scrollY");
  expect(before).toBeGreaterThan(200);
  // Clicks without a pointer, because a pointer click would scroll to the link first.
  await page.getByRole("link", { name: "Budgets" }).dispatchEvent("click");
  await expect(page.getByRole("heading", { level: 1, name: "Budgets" })).toBeVisible();
  await expect.poll(() => page.evaluate("scrollY")).toBe(0);
  await page.goBack();
  await expect(page.getByRole("heading", { level: 1, name: "AI policy" })).toBeVisible();
  await expect.poll(() => page.evaluate("scrollY")).toBe(before);
});

test("a slow page shows a placeholder of its layout instead of the previous page", async ({ page, member }) => {
  await enter(page, member, "/workspaces");
  await page.getByRole("link", { name: /Personal/ }).click();
  await page.getByRole("link", { name: "Settings" }).click();
  const outline = page.locator("[data-outline]:visible");
  let go = () => {};
  const held = new Promise<void>((resolve) => {
    go = resolve;
  });
  await page.route(/members\.data|\/ai\.data/, async (route) => {
    await held;
    await route.continue();
  });
  await page.getByRole("link", { name: "Members", exact: true }).click();
  await expect(outline).toHaveAttribute("data-outline", /\/members$/);
  // The navigation stays usable while the page loads.
  await expect(page.getByRole("navigation", { name: "Workspace" })).toBeVisible();
  await expect(page.getByLabel("Name")).toBeHidden();
  await expectWellMade(page);
  // If another page is chosen in the meantime, that page loads instead.
  await page.getByRole("link", { name: "Usage" }).click();
  await expect(outline).toHaveAttribute("data-outline", /\/ai$/);
  go();
  await expect(page.getByRole("heading", { level: 1, name: "Usage" })).toBeVisible();
  await expect(outline).toHaveCount(0);
});

test("when navigation fails, keyboard focus and typed values stay where they were", async ({ page, member }) => {
  await enter(page, member, "/workspaces");
  await page.getByRole("link", { name: /Personal/ }).click();
  await page.getByRole("link", { name: "Settings" }).click();
  const name = page.getByLabel("Name");
  await name.fill("Half a na");
  // Navigates to a page that never responds, then comes back.
  await page.route(/\.data/, () => {});
  await page.evaluate("history.back()");
  await expect(page.locator("[data-outline]:visible")).toHaveCount(1);
  await expect(name).toBeHidden();
  await expect(name).not.toBeFocused();
  await page.evaluate("history.forward()");
  await expect(name).toBeVisible();
  await expect(name).toBeFocused();
  await page.keyboard.type("me");
  await expect(name).toHaveValue("Half a name");
});
