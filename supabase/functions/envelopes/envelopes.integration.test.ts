import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { readStack } from "../../../scripts/test/stack.ts";
import { type InProcessGateway, openGateway } from "../../tests/gateway/in-process.ts";
import { createGatewayTenant, type GatewayTenant } from "../../tests/gateway/tenant.ts";

/** The stack's own gateway, over HTTP. */
const stackGateway: Pick<InProcessGateway, "fetch"> = {
  fetch: (input, init) => fetch(String(input).replace("http://gateway.test", readStack().ai), init),
};
let tenant: GatewayTenant;
let other: GatewayTenant;
let gateway: InProcessGateway;
/** Begins its responses after a second, with status 200 and without the headers of a run that is not admitted yet. */
let earlyGateway: InProcessGateway;
beforeAll(async () => {
  [tenant, other] = await Promise.all([createGatewayTenant(), createGatewayTenant()]);
  const settings = { WEB_URL: "https://hub.test" };
  gateway = await openGateway(settings);
  earlyGateway = await openGateway(settings, undefined, { beginMs: 1_000, keepaliveMs: 500 });
});
afterAll(async () => {
  await Promise.all([gateway.close(), earlyGateway.close()]);
  await Promise.all([tenant.close(), other.close()]);
});

type Call = {
  path?: string;
  body?: object;
  label: string;
  envelope?: string;
  requestId?: string;
  key?: string;
  signal?: AbortSignal;
  at?: Pick<InProcessGateway, "fetch">;
};

const messages = [{ role: "user", content: "[[words=3]]" }];

function post({
  path = "/chat/completions",
  body,
  label,
  envelope,
  requestId = randomUUID(),
  key,
  signal,
  at = gateway,
}: Call) {
  return at.fetch(`http://gateway.test/v1${path}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${key ?? tenant.key}`,
      "content-type": "application/json",
      "x-request-id": requestId,
      "x-platform-entity-id": label,
      ...(envelope === undefined ? {} : { "x-platform-envelope": envelope }),
    },
    body: JSON.stringify(body ?? { model: "demo-chat", messages, max_tokens: 8 }),
    ...(signal ? { signal } : {}),
  });
}

const get = (path: string, key = tenant.key) =>
  gateway.fetch(`http://gateway.test/v1${path}`, { headers: { authorization: `Bearer ${key}` } });

async function idOf(label: string): Promise<string> {
  const read = () =>
    tenant.db.query<{ id: string }>("select id from ai.envelopes where workspace_id = $1 and label = $2", [
      tenant.workspaceId,
      label,
    ]);
  return vi.waitFor(async () => {
    const [row] = await read();
    if (!row) throw new Error("the envelope is not open yet");
    return row.id;
  });
}

const raise = (id: string, usd: number) =>
  tenant.db.query("update ai.budgets set limit_usd = $2 where scope = 'envelope' and subject_id = $1", [id, usd]);

async function end(id: string): Promise<void> {
  await tenant.db.query("update ai.envelopes set ended_at = now() where id = $1", [id]);
  await tenant.db.query("update ai.budgets set ends_at = now() where scope = 'envelope' and subject_id = $1", [id]);
}

const refusedCount = async (label: string) =>
  (
    await tenant.db.query(
      "select 1 from ai.refused_calls where workspace_id = $1 and entity_id = $2 and error_code = 'envelope_exhausted'",
      [tenant.workspaceId, label],
    )
  ).length;

describe("a call that an envelope holds", () => {
  test("states what is left, and its caller can read the envelope", async () => {
    const response = await post({ label: "held", envelope: "usd=5; calls=2; ttl=3600", at: stackGateway });
    const { platform } = (await response.json()) as { platform: Record<string, never> };
    const id = await idOf("held");
    const left = 5 - Number(platform.provider_cost_usd);
    expect(platform.envelope).toEqual({ id, remaining_usd: expect.closeTo(left, 10), remaining_calls: 1 });
    expect(response.headers.get("x-platform-envelope-id")).toBe(id);
    expect(Number(response.headers.get("x-platform-envelope-remaining-usd"))).toBeCloseTo(left, 10);
    expect(response.headers.get("x-platform-envelope-remaining-calls")).toBe("1");
    await expect
      .poll(async () => (await get(`/envelopes/${id}`)).json())
      .toMatchObject({ id, label: "held", state: "open", limit_usd: 5, reserved_usd: 0, calls: 1, remaining_calls: 1 });
  });

  test("is not found by others", async () => {
    const id = await idOf("held");
    for (const [path, key] of [
      [`/envelopes/${id}`, other.key],
      [`/envelopes/${randomUUID()}`, tenant.key],
      ["/envelopes/nonsense", tenant.key],
    ] as const) {
      const response = await get(path, key);
      const { error } = (await response.json()) as { error: { code: string } };
      expect([path, response.status, error.code]).toEqual([path, 404, "envelope_not_found"]);
    }
    expect((await get(`/envelopes/${id}?wait=61`)).status).toBe(400);
  });

  test.for([
    ["usd=6; calls=2; ttl=3600", "Send X-Platform-Envelope: usd=5; calls=2; ttl=3600"],
    ["usd=5; usd=5", "has usd twice"],
  ] as const)("is refused with 400 if its header is %s", async ([envelope, text]) => {
    const response = await post({ label: "held", envelope });
    const { error } = (await response.json()) as { error: Record<string, string> };
    expect([response.status, error.code, error.param]).toEqual([400, "invalid_request", "X-Platform-Envelope"]);
    expect(error.message).toContain(text);
  });

  test("is refused with 402 once its calls are used up", async () => {
    expect((await post({ label: "held" })).status).toBe(200);
    const response = await post({ label: "held" });
    const { error } = (await response.json()) as { error: Record<string, unknown> };
    const id = await idOf("held");
    expect([response.status, error.code]).toEqual([402, "envelope_exhausted"]);
    expect(error.message).toBe(
      `The task “held” has used its limit of 2 calls. Raise the limit at https://hub.test/workspaces/${tenant.workspaceId}/ai/envelopes/${id}, then send the request again.`,
    );
    expect(response.headers.get("x-should-retry")).toBe("false");
  });
});

describe("a call that waits for its envelope", () => {
  const tiny = "usd=0.0000001; wait=600";

  test.for([
    ["whole", {}],
    ["streamed", { stream: true }],
  ] as const)("answers by itself once the envelope is raised: %s", async ([label, fields]) => {
    const requestId = randomUUID();
    const body = { model: "demo-chat", messages, max_tokens: 8, ...fields };
    const answering = post({ label, envelope: tiny, requestId, body });
    const id = await idOf(label);
    await sleep(1_200);
    await raise(id, 1);
    const response = await answering;
    const text = await response.text();
    expect([response.status, text.includes('"envelope"')]).toEqual([200, true]);
    expect((await tenant.accountOf(requestId)).run).toMatchObject({ status: "succeeded", error_code: null });
    expect(await refusedCount(label)).toBe(0);
  });

  test("keeps a streaming client informed, and ends with an error event if it may wait no longer", async () => {
    const body = { model: "demo-chat", messages, max_tokens: 8, stream: true };
    const response = await post({ label: "long", envelope: "usd=0.0000001; wait=6", body, at: earlyGateway });
    const text = await response.text();
    expect([response.status, text.split(": keepalive").length > 2]).toEqual([200, true]);
    expect(text).toContain('"code":"envelope_exhausted"');
    await expect.poll(() => refusedCount("long"), { timeout: 5_000 }).toBe(1);
  });

  test("is refused at once when the envelope is stopped", async () => {
    const answering = post({ label: "stopped", envelope: tiny });
    const id = await idOf("stopped");
    await end(id);
    const startedAt = performance.now();
    const response = await answering;
    const { error } = (await response.json()) as { error: { message: string } };
    expect(response.status).toBe(402);
    expect(error.message).toContain("was stopped by its owner");
    expect(performance.now() - startedAt).toBeLessThan(3_000);
  });

  test("forty waiting calls cost one statement a second, and none once their clients have left", async () => {
    const leaving = new AbortController();
    const label = "forty";
    const all = Array.from({ length: 40 }, () => post({ label, envelope: tiny, signal: leaving.signal }));
    const texts = Promise.all(all.map(async (answering) => (await answering).text()));
    await idOf(label);
    // The refused calls of earlier tests are recorded when the gateway is less busy.
    const statements = () => gateway.line.calls().filter((name) => name !== "record_refused_calls");
    await vi.waitFor(() => expect(statements().at(-1)).toBe("read_envelopes"), { timeout: 5_000 });
    const before = statements().length;
    await sleep(3_100);
    const during = statements().slice(before);
    leaving.abort();
    for (const text of await texts) expect(text).toContain('"code":"envelope_exhausted"');
    expect(new Set(during)).toEqual(new Set(["read_envelopes"]));
    expect(during.length).toBeLessThanOrEqual(4);
    await sleep(2_500);
    const after = statements().length;
    await sleep(1_500);
    expect(statements()).toHaveLength(after);
  });

  test("calls that waited share the room that there is, each at most once", async () => {
    const label = "shared";
    const call = { label, envelope: "usd=0.0000001; wait=8", at: earlyGateway };
    const all = Array.from({ length: 6 }, () => post(call));
    const id = await idOf(label);
    await sleep(500);
    await tenant.db.query(
      "update ai.budgets set limit_usd = 1, max_calls = 3 where scope = 'envelope' and subject_id = $1",
      [id],
    );
    const responses = await Promise.all(all);
    // The clients that are refused have waited longer than `beginMs`, so their responses began.
    expect(responses.map(({ status }) => status)).toEqual(Array(6).fill(200));
    const texts = await Promise.all(responses.map((response) => response.text()));
    expect(texts.filter((text) => text.includes('"code":"envelope_exhausted"'))).toHaveLength(3);
    const [row] = await tenant.db.query(
      "select calls::int, reserved_usd::float8 as reserved from ai.budgets where scope = 'envelope' and subject_id = $1",
      [id],
    );
    expect(row).toMatchObject({ calls: 3 });
  });
});

describe("stopping an envelope", () => {
  const words = "[[words=300]]";
  test.for<[string, Call]>([
    [
      "chat",
      {
        path: "/chat/completions",
        body: { messages: [{ role: "user", content: words }], max_tokens: 900 },
        label: "s1",
      },
    ],
    ["responses", { path: "/responses", body: { input: words, max_output_tokens: 900 }, label: "s2" }],
  ])("ends a stream of %s within three seconds and settles what was used", async ([, call]) => {
    const requestId = randomUUID();
    const body = { model: "demo-long", stream: true, ...call.body };
    const response = await post({ ...call, body, requestId, envelope: "usd=5" });
    const reader = response.body?.getReader();
    const decoder = new TextDecoder();
    let text = decoder.decode((await reader?.read())?.value, { stream: true });
    const stoppedAt = performance.now();
    await end(await idOf(call.label));
    for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
      text += decoder.decode(next.value, { stream: true });
    }
    expect(performance.now() - stoppedAt).toBeLessThan(3_000);
    const events = text.trim().split("\n\n");
    expect(events.at(-1)).toContain("envelope_exhausted");
    expect(events.at(-1)).toContain("was stopped by its owner");
    const { run, truth, charged } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "cancelled", http_status: 200, error_code: "envelope_exhausted" });
    expect(truth.at(-1)?.aborted).toBe(true);
    expect(charged).toBe(run.billed_credits);
    expect(Number(run.cost_usd)).toBeGreaterThan(0);
    const [row] = await tenant.db.query(
      `select spent_usd::text = $2::numeric(24, 12)::text as is_charged, reserved_usd::float8 as reserved
       from ai.budgets where scope = 'envelope' and subject_id = $1`,
      [await idOf(call.label), run.cost_usd],
    );
    expect(row).toMatchObject({ is_charged: true, reserved: 0 });
  });

  test("ends a whole answer with 402", async () => {
    const requestId = randomUUID();
    const slow = [{ role: "user", content: "[[first=8000 words=3]]" }];
    const body = { model: "demo-chat", messages: slow, max_tokens: 8 };
    const answering = post({ label: "s3", envelope: "usd=5", body, requestId });
    const id = await idOf("s3");
    await sleep(300);
    await end(id);
    const response = await answering;
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    expect([response.status, error.code]).toEqual([402, "envelope_exhausted"]);
    expect((await tenant.accountOf(requestId)).run).toMatchObject({
      status: "cancelled",
      http_status: 402,
      error_code: "envelope_exhausted",
    });
  });
});

test("GET /v1/envelopes/{id} waits for a change", async () => {
  await (await post({ label: "poll", envelope: "usd=5" })).text();
  await gateway.settled();
  const id = await idOf("poll");
  const waiting = get(`/envelopes/${id}?wait=30`);
  await sleep(1_500);
  await raise(id, 8);
  const startedAt = performance.now();
  expect(await (await waiting).json()).toMatchObject({ state: "open", limit_usd: 8 });
  expect(performance.now() - startedAt).toBeLessThan(3_000);
  expect(await (await get(`/envelopes/${id}?wait=1`)).json()).toMatchObject({ limit_usd: 8 });
});
