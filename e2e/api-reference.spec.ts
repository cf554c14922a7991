import { expect, expectAccessible, expectFitsSmallScreens, test } from "./test.ts";

test.describe("without JavaScript", () => {
  test.use({ javaScriptEnabled: false });

  test("anyone finds a call, its shape and a command, and the documents", async ({ page, request }) => {
    await page.goto("/docs/api");
    await page.getByRole("link", { name: "Create a chat completion" }).click();
    await expect(page).toHaveURL("/docs/api/gateway/text#createChatCompletion");
    const call = page.getByRole("region", { name: "Create a chat completion" });
    await expect(call).toContainText("/v1/chat/completions");
    await expect(call).toContainText("idempotency_key_used");
    await expect(call.locator("pre")).toContainText('"model": "demo-chat"');
    await call.getByText("Fields", { exact: true }).first().click();
    await expect(call.getByText("max_completion_tokens", { exact: true })).toBeVisible();
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

test("its pages hold up for everyone", async ({ page }) => {
  await page.goto("/docs/api");
  await expectFitsSmallScreens(page);
  await page.goto("/docs/api/gateway/models-and-credentials");
  await expectAccessible(page);
  await expectFitsSmallScreens(page);
});
