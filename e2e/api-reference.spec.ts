import { enter, expect, expectFitsSmallScreens, expectWellMade, signIn, test } from "./test.ts";

test("a member sends a call with their own session and sees the response", async ({ page, member }) => {
  await signIn(page, member);
  await page.getByRole("contentinfo").getByRole("link", { name: "Documentation" }).click();
  await page.getByRole("link", { name: "API reference" }).click();
  await page.getByRole("link", { name: "List the caller's workspaces" }).click();
  const call = page.getByRole("region", { name: "List the caller's workspaces" });
  await call.getByText("Try it", { exact: true }).click();
  await call.getByLabel("limit").fill("1");
  await call.getByRole("button", { name: "Send request" }).click();
  const answer = call.getByRole("status");
  await expect(answer).toContainText(/^200 .*GET \/api\/v1\/workspaces\?limit=1/);
  await expect(answer).toContainText('"personal": true');
  await expectWellMade(page);

  await call.getByLabel("cursor").fill("none of ours");
  await call.getByRole("button", { name: "Send request" }).click();
  await expect(answer).toContainText(/^400 .*INVALID_REQUEST/s);
});

test("a call that costs money is sent only after confirmation, and only as the account shown on the page", async ({
  page,
  member,
}) => {
  await enter(page, member, "/docs/api/gateway/text");
  const call = page.getByRole("region", { name: "Create a chat completion" });
  await call.getByText("Try it", { exact: true }).click();
  const send = call.getByRole("button", { name: "Send request" });
  await send.click();
  await expect(call.getByRole("status")).toBeHidden();
  await call.getByRole("checkbox").check();
  const sent = page.waitForRequest(/\/ai\/playground\/chat$/);
  await send.click();
  expect((await sent).headers()["x-page-account"]).toMatch(/^[0-9a-f-]{36}$/);
  await expect(call.getByRole("status")).toContainText(/^200 .*"finish_reason"/s);
});

test("the guides are accessible, fit small screens, and an error's address leads to its row", async ({ page }) => {
  await page.goto("/docs");
  await expectWellMade(page);
  await page.getByRole("main").getByRole("link", { name: "Errors" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Errors" })).toBeVisible();
  await expectWellMade(page);
  await page.goto("/docs/errors#provider_timeout");
  await expect(page.locator("tr:target")).toContainText("provider_timeout");
  await expect(page.locator("tr:target")).toBeInViewport();
});

test("the API reference is accessible and fits small screens", async ({ page }) => {
  await page.goto("/docs/api");
  await expectFitsSmallScreens(page);
  await page.goto("/docs/api/gateway/models-and-credentials");
});
