import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createGatewayTenant, type GatewayTenant } from "../../tests/gateway/tenant.ts";
import { createAiKey } from "../_shared/ai-key.ts";

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

async function askKey({ key = tenant.key, method = "GET", ...headers }: Record<string, string> = {}) {
  const response = await fetch(`${tenant.client.baseURL}/key`, {
    method,
    headers: { authorization: `Bearer ${key}`, ...headers },
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: text && JSON.parse(text) };
}

describe("GET /v1/key", () => {
  test("GET /v1/key returns the key's exact spend and remaining limits, but never the key itself", async () => {
    const requestId = randomUUID();
    await tenant.client.chat.completions.create(
      { model: "demo-chat", messages: [{ role: "user", content: "hello" }] },
      { headers: { "x-request-id": requestId } },
    );
    const { run } = await tenant.accountOf(requestId);
    const { status, headers, text, body } = await askKey({ "x-request-id": "what-am-i" });
    expect([status, headers.get("x-request-id"), headers.get("cache-control")]).toEqual([
      200,
      "what-am-i",
      "private, no-store",
    ]);
    expect(body).toMatchObject({
      source: "key",
      workspaceId: tenant.workspaceId,
      key: { id: tenant.keyId, prefix: tenant.key.slice(0, "ttr_ai_".length + 12) },
      exempt: false,
      spent: { requests: 1 },
    });
    const digits = (amount: string) => amount.replace(/0+$/, "");
    expect(text).toContain(`"costUsd": ${digits(run.cost_usd)}`);
    expect(text).toContain(`"billedCredits": ${digits(run.billed_credits)}`);
    expect(text).not.toContain(tenant.key.slice(20));
  });

  test("GET /v1/key describes only the calling key; a header cannot select another workspace", async () => {
    const other = await createGatewayTenant();
    const { status, body } = await askKey({ "X-Platform-Workspace-Id": other.workspaceId });
    expect([status, body.error.code]).toEqual([403, "workspace_mismatch"]);
    expect((await askKey({ "X-Platform-Workspace-Id": tenant.workspaceId })).status).toBe(200);
    await other.close();
  });

  test("GET /v1/key refuses invalid callers with the same errors as other endpoints", async () => {
    const malformed = { "X-Platform-Operation": "a/b" };
    for (const key of ["nonsense", (await createAiKey()).text]) {
      for (const headers of [{}, malformed]) {
        const { status, body } = await askKey({ key, ...headers });
        expect([status, body.error.code]).toEqual([401, "invalid_api_key"]);
      }
    }
    const labelled = await askKey(malformed);
    expect([labelled.status, labelled.body.error.param]).toEqual([400, "X-Platform-Operation"]);
    const post = await askKey({ method: "POST" });
    expect([post.status, post.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
  });
});
