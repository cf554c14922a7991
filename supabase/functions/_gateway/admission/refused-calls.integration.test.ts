import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readStack } from "../../../../scripts/test/stack.ts";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";
import { createAppToken, createMember } from "../../../tests/gateway/tenant-callers.ts";

let tenant: GatewayTenant;
let gateway: InProcessGateway;
let credentials: Record<string, string>;
beforeAll(async () => {
  tenant = await createGatewayTenant();
  gateway = await openGateway();
  const member = await createMember(tenant);
  const { token } = await createAppToken(tenant, member);
  credentials = { key: tenant.key, app_token: token, session: member.accessToken };
});
afterAll(async () => {
  await gateway.close();
  await tenant.close();
});

/** Sends a call and returns its status and code. Waits for the gateway's background work. */
async function send(
  path: string,
  {
    key = tenant.key,
    body,
    headers = {},
  }: { key?: string | undefined; body: unknown; headers?: Record<string, string> },
): Promise<[number, string | undefined]> {
  const response = await gateway.fetch(`http://gateway.test/v1${path}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      "x-platform-workspace-id": tenant.workspaceId,
      ...headers,
    },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  const answer = (await response.json()) as { error?: { code?: string } };
  await gateway.settled();
  return [response.status, answer.error?.code];
}

const refusedOf = (requestId: string) =>
  tenant.db.query(
    `select credential_source, feature, entity_id, model_id, endpoint, streamed, http_status, error_code, param, details
     from ai.refused_calls where workspace_id = $1 and request_id = $2`,
    [tenant.workspaceId, requestId],
  );
const countOf = async () => {
  const sql = "select coalesce(sum(refused), 0)::int as count from ai.refused_daily where workspace_id = $1";
  const [row] = await tenant.db.query<{ count: number }>(sql, [tenant.workspaceId]);
  return row?.count ?? 0;
};
const runsOf = (requestId: string) =>
  tenant.db.query("select id from ai.runs where workspace_id = $1 and request_id = $2", [
    tenant.workspaceId,
    requestId,
  ]);

const chat = { model: "demo-chat", messages: [{ role: "user", content: "hello" }] };
const refusals = [
  {
    what: "an unknown model",
    path: "/chat/completions",
    body: { ...chat, model: "no-such" },
    is: [404, "model_not_found"],
  },
  { what: "an invalid field", path: "/chat/completions", body: { ...chat, messages: 1 }, is: [400, "invalid_request"] },
  { what: "a body that is not JSON", path: "/chat/completions", body: "{", is: [400, "invalid_json"] },
  {
    what: "a body that is too large",
    path: "/chat/completions",
    body: { ...chat, messages: [{ role: "user", content: "x".repeat(9 * 1024 * 1024) }] },
    is: [413, "payload_too_large"],
  },
  {
    what: "an idempotency key of another request",
    path: "/chat/completions",
    body: { ...chat, max_tokens: 5 },
    headers: { "idempotency-key": "used" },
    is: [422, "idempotency_key_reused"],
  },
] as const;

describe("refused calls", () => {
  test.each(refusals)("of $what are recorded once, and are not runs", async ({ path, body, is, ...rest }) => {
    const requestId = crypto.randomUUID();
    if ("headers" in rest) await send(path, { body: chat, headers: rest.headers });
    const before = await countOf();
    const headers = {
      ...("headers" in rest ? rest.headers : {}),
      "x-request-id": requestId,
      "x-platform-entity-id": "c-1",
    };
    expect(await send(path, { body, headers })).toEqual(is);
    const model = typeof body === "string" || is[0] === 413 ? null : body.model;
    expect(await refusedOf(requestId)).toMatchObject([
      {
        credential_source: "key",
        feature: "chat",
        entity_id: is[0] === 413 ? null : "c-1",
        model_id: model,
        streamed: false,
        http_status: is[0],
        error_code: is[1],
      },
    ]);
    expect(await runsOf(requestId)).toEqual([]);
    expect(await countOf()).toBe(before + 1);
  });

  test.each(["key", "app_token", "session"])("with the credential %s are recorded with it", async (source) => {
    const requestId = crypto.randomUUID();
    const headers = { "x-request-id": requestId, "x-platform-operation": "Summaries" };
    const body = { ...chat, model: "no-such", stream: true };
    expect(await send("/chat/completions", { key: credentials[source], body, headers })).toEqual([
      404,
      "model_not_found",
    ]);
    expect(await refusedOf(requestId)).toMatchObject([
      { credential_source: source, feature: "Summaries", model_id: "no-such", streamed: true },
    ]);
  });

  test("with an unknown credential, and errors of a call with a run, are not recorded", async () => {
    const before = await countOf();
    const requestId = crypto.randomUUID();
    const headers = { "x-request-id": requestId };
    const unknown = `${tenant.key.slice(0, -1)}${tenant.key.endsWith("a") ? "b" : "a"}`;
    for (const body of [chat, "{"]) {
      expect(await send("/chat/completions", { key: unknown, body, headers })).toEqual([401, "invalid_api_key"]);
    }
    const failing = { ...chat, model: "demo-error-400" };
    const [status] = await send("/chat/completions", { body: failing, headers });
    expect(status).toBeGreaterThanOrEqual(400);
    expect([(await runsOf(requestId)).length, await refusedOf(requestId), await countOf()]).toEqual([1, [], before]);
  });

  test("wait for no statement, and an admitted call makes none more", async () => {
    const { line } = gateway;
    await send("/chat/completions", { body: chat });
    const calls = line.calls().length;
    await send("/chat/completions", { body: chat });
    expect(line.calls().slice(calls)).toEqual(["begin_runs", "settle_runs"]);
    const response = await gateway.fetch("http://gateway.test/v1/chat/completions", {
      method: "POST",
      headers: { authorization: `Bearer ${tenant.key}`, "content-type": "application/json" },
      body: JSON.stringify({ ...chat, model: "no-such" }),
    });
    expect(response.status).toBe(404);
    expect(line.calls().slice(calls)).not.toContain("record_refused_calls");
    await gateway.settled();
    expect(line.calls().at(-1)).toBe("record_refused_calls");
  });

  test("of the running gateway are recorded too", async () => {
    const requestId = crypto.randomUUID();
    const response = await fetch(`${readStack().ai}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${tenant.key}`, "content-type": "application/json", "x-request-id": requestId },
      body: JSON.stringify({ ...chat, model: "no-such" }),
    });
    expect(response.status).toBe(404);
    await expect.poll(() => refusedOf(requestId), { timeout: 10_000 }).toHaveLength(1);
  });
});
