import { enter, expect, test } from "./test.ts";

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

test("a form whose request fails is restored when its page is shown again, and is empty once it is answered", async ({
  page,
  member,
}) => {
  await enter(page, member, "/workspaces");
  await page.getByRole("link", { name: /Personal/ }).click();
  await page.getByRole("link", { name: "Roles", exact: true }).click();
  const name = page.getByLabel("Name", { exact: true });
  const restored = page.getByRole("status").filter({ hasText: "This may not have been saved." });
  await name.fill("Reader");
  await page.getByLabel("Manage API keys").check();
  // Responds like a proxy while the server is down.
  const failPosts = (body: string) =>
    page.route(/\/roles$/, (route) =>
      route.request().method() === "POST"
        ? route.fulfill({ status: 503, contentType: "text/html", body })
        : route.fallback(),
    );
  await failPosts("<h1>Unavailable</h1>");
  await page.getByRole("button", { name: "Create role" }).click();
  await expect(page.getByRole("heading", { name: "Unavailable" })).toBeVisible();
  await page.goBack();
  await expect(restored).toBeVisible();
  await expect(name).toHaveValue("Reader");
  await expect(page.getByLabel("Manage API keys")).toBeChecked();
  await page.unrouteAll();

  // Our own page about a failure leads back by a link.
  await failPosts(await (await page.request.get("/no/such/page", { headers: { Accept: "text/html" } })).text());
  await page.getByRole("button", { name: "Create role" }).click();
  await expect(page.getByRole("link", { name: "Go to home page" })).toBeVisible();
  await page.unrouteAll();
  await page.goto(page.url());
  await expect(restored).toBeVisible();
  await expect(name).toHaveValue("Reader");

  await page.getByRole("button", { name: "Create role" }).click();
  await expect(page.getByRole("link", { name: "Edit Reader" })).toBeVisible();
  await expect(name).toHaveValue("");
  await expect(restored).toHaveCount(0);
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

test("a form that holds a code or a secret is not kept in the browser", async ({ page, member }) => {
  await enter(page, member, "/workspaces");
  /** Sends a form with another field, without leaving the page. @returns what the browser keeps of it */
  const keep = (field: string) =>
    page.evaluate((html) => {
      const form = document.querySelector<HTMLFormElement>("main form[method=post]");
      sessionStorage.clear();
      delete form?.dataset.sent;
      form?.insertAdjacentHTML("beforeend", html);
      form?.dispatchEvent(new SubmitEvent("submit", { bubbles: true, cancelable: true }));
      form?.lastElementChild?.remove();
      return sessionStorage.getItem("gatehouse-sent-form");
    }, field);
  expect(await keep('<input name="note" value="kept">')).toContain("kept");
  for (const field of ['autocomplete="one-time-code"', 'name="code"', 'type="hidden" name="secret"']) {
    expect(await keep(`<input ${field} value="123456">`)).toBeNull();
  }
});
