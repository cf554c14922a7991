import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createGatewayTenant, type GatewayTenant } from "../../tests/gateway/tenant.ts";
import { expectTruth } from "../../tests/gateway/truth.ts";

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

async function generate(fields: unknown, key = tenant.key) {
  const requestId = randomUUID();
  const response = await fetch(`${tenant.client.baseURL}/generate`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", "x-request-id": requestId },
    body: JSON.stringify(fields),
  });
  return { requestId, response, body: await response.json() };
}

describe("the legacy endpoint", () => {
  test("the legacy endpoint answers in its own format, names its successor, and is metered like a chat", async () => {
    const { requestId, response, body } = await generate({ prompt: "Grüße", system: "Be brief." });
    const { headers } = response;
    const account = await tenant.accountOf(requestId);
    const { input_tokens: inputTokens, output_tokens: outputTokens } = account.run;
    expect(body).toEqual({
      output: expect.stringContaining("You said: Grüße"),
      usage: { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens },
      finishReason: "stop",
    });
    expect([headers.get("deprecation"), headers.get("link")]).toEqual([
      "@1767225600",
      '</functions/v1/chat/completions>; rel="successor-version"',
    ]);
    expect(Number(headers.get("x-platform-billed-credits"))).toBe(Number(account.charged));
    expect(account.run).toMatchObject({ feature: "generate", model_id: "demo-chat", usage_source: "provider" });
    expectTruth(account);
  });

  test("the legacy endpoint uses the model named in the body", async () => {
    expect((await generate({ prompt: "x", model: "demo-length" })).body.finishReason).toBe("length");
  });

  test.for([
    [{ prompt: "x", model: "no-such-model" }, 404, "model_not_found"],
    [{ prompt: "" }, 400, "invalid_request"],
    [{ prompt: "x", temperature: 1 }, 400, "invalid_request"],
    [{ prompt: "x", model: "demo-error-500" }, 502, "provider_error"],
  ] as const)("the legacy endpoint refuses %j with %d in OpenAI's format", async ([fields, status, code]) => {
    const { response, body } = await generate(fields);
    expect([response.status, body.error.code, response.headers.has("deprecation")]).toEqual([status, code, true]);
  });

  test("the legacy endpoint requires a valid key", async () => {
    expect((await generate({ prompt: "x" }, "nonsense")).response.status).toBe(401);
  });
});
