import { expect, expectAccessible, expectFitsSmallScreens, signIn, test } from "./test.ts";

test.describe("the API reference without JavaScript", () => {
  test.use({ javaScriptEnabled: false });

  test("an anonymous visitor finds the OpenAPI documents and each call's schema and example command", async ({
    page,
    request,
  }) => {
    await page.goto("/docs/api");
    await page.getByRole("link", { name: "Create a chat completion" }).click();
    await expect(page).toHaveURL("/docs/api/gateway/text#createChatCompletion");
    const call = page.getByRole("region", { name: "Create a chat completion" });
    await expect(call).toContainText("/v1/chat/completions");
    await expect(call).toContainText("idempotency_key_used");
    await expect(call.locator("pre").first()).toContainText('"model": "demo-chat"');
    await call.getByText("Fields", { exact: true }).first().click();
    await expect(call.getByText("max_completion_tokens", { exact: true })).toBeVisible();
    await call.getByText("Try it", { exact: true }).click();
    await expect(call.getByRole("link", { name: "Sign in" })).toHaveAttribute(
      "href",
      "/login?returnUrl=%2Fdocs%2Fapi%2Fgateway%2Ftext%23createChatCompletion",
    );
    await expectFitsSmallScreens(page);
    await page.getByRole("navigation", { name: "API reference" }).getByRole("link", { name: "QR handoff" }).click();
    await expect(page.getByRole("heading", { level: 1, name: "QR handoff" })).toBeVisible();
    for (const area of ["platform", "gateway"]) {
      const document = await (await request.get(`/docs/api/${area}.json`)).json();
      expect(document.openapi).toBe("3.1.0");
      expect(document.servers[0].url).toMatch(/^http/);
    }
  });
});

test("a member sends a call with their own session and sees the response", async ({ page, member }) => {
  await signIn(page, member);
  await page.getByRole("contentinfo").getByRole("link", { name: "API reference" }).click();
  await page.getByRole("link", { name: "List the caller's workspaces" }).click();
  const call = page.getByRole("region", { name: "List the caller's workspaces" });
  await call.getByText("Try it", { exact: true }).click();
  await call.getByLabel("limit").fill("1");
  await call.getByRole("button", { name: "Send request" }).click();
  const answer = call.getByRole("status");
  await expect(answer).toContainText(/^200 .*GET \/api\/v1\/workspaces\?limit=1/);
  await expect(answer).toContainText('"personal": true');
  await expectAccessible(page);
  await expectFitsSmallScreens(page);

  await call.getByLabel("cursor").fill("none of ours");
  await call.getByRole("button", { name: "Send request" }).click();
  await expect(answer).toContainText(/^400 .*INVALID_REQUEST/s);
});

test("a call that costs money is sent only after confirmation, and only as the account shown on the page", async ({
  page,
  member,
}) => {
  await signIn(page, member);
  await page.goto("/docs/api/gateway/text");
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

test("the API reference is accessible and fits small screens", async ({ page }) => {
  await page.goto("/docs/api");
  await expectFitsSmallScreens(page);
  await page.goto("/docs/api/gateway/models-and-credentials");
  await expectAccessible(page);
  await expectFitsSmallScreens(page);
});
