import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createApp } from "../../../../scripts/test/apps.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";
import { createMember } from "../../../tests/gateway/tenant-callers.ts";

/**
 * A call to a model that never answers. The call holds its reservation until the client abandons it. The names
 * demo-hang and demo-chat have the same length, so calls to either model reserve the same amount.
 */
const unanswered = { model: "demo-hang", messages: [{ role: "user" as const, content: "hello" }] };
const answered = { ...unanswered, model: "demo-chat" };

/** Returns the amount that one call reserves, as an exact decimal. */
async function heldByOne(tenant: GatewayTenant): Promise<string> {
  const { platform } = (await tenant.client.chat.completions.create(answered)) as unknown as {
    platform: { run_id: string };
  };
  const sql = "select reserved_usd::text as held from ai.runs where id = $1";
  const [row] = await tenant.db.query<{ held: string }>(sql, [platform.run_id]);
  return row?.held ?? "";
}

/**
 * Makes concurrent calls and waits until all but `admitted` of them are refused. Then abandons the admitted calls.
 * @returns the refusals
 */
async function callAtOnce(clients: OpenAI[], { admitted }: { admitted: number }): Promise<Set<string>> {
  const leaving = new AbortController();
  const refusals: string[] = [];
  const calls = clients.map((client) =>
    client.chat.completions.create(unanswered, { signal: leaving.signal }).then(
      () => refusals.push("answered"),
      (error) => {
        if (!(error instanceof OpenAI.APIUserAbortError)) refusals.push(`${error.status} ${error.code}`);
      },
    ),
  );
  await expect.poll(() => refusals.length, { timeout: 25_000 }).toBe(clients.length - admitted);
  leaving.abort();
  await Promise.all(calls);
  expect(refusals).toHaveLength(clients.length - admitted);
  return new Set(refusals);
}

describe("200 concurrent calls when the budget is nearly used up", { tags: "needs-stack-server" }, () => {
  /** Sets a budget that covers five calls, or that falls short of them by `lacking`, and makes concurrent calls. */
  async function tryBudget(
    tenant: GatewayTenant,
    { scope, subject, lacking, clients }: { scope: string; subject: string; lacking: string; clients: OpenAI[] },
  ) {
    const held = await heldByOne(tenant);
    await tenant.db.query(
      `insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
       values ($1, $2, $3, 5 * $4::numeric - $5::numeric)`,
      [scope, subject, tenant.workspaceId, held, lacking],
    );
    const admitted = Number(lacking) === 0 ? 5 : 4;
    const calls = Array.from({ length: 200 }, (_, n) => clients[n % clients.length] ?? tenant.client);
    expect(await callAtOnce(calls, { admitted })).toEqual(new Set(["402 budget_exceeded"]));

    const [run] = (await tenant.db.query(
      "select min(created_at) as first from ai.runs where workspace_id = $1 and model_id = 'demo-hang'",
      [tenant.workspaceId],
    )) as [{ first: Date }];
    const books = `
      select count(*)::int as runs, (select b.reserved_usd::text from ai.budgets b where b.workspace_id = $1) as reserved,
        (select b.spent_usd = sum(r.cost_usd) and b.spent_usd <= b.limit_usd from ai.budgets b where b.workspace_id = $1) as agree
      from ai.runs r where r.workspace_id = $1 and r.created_at >= $2 and r.status = 'cancelled'`;
    await expect
      .poll(() => tenant.db.query(books, [tenant.workspaceId, run.first]), { timeout: 10_000 })
      .toEqual([{ runs: admitted, reserved: "0.000000000000", agree: true }]);
  }

  test("admits five of 200 concurrent calls if the key's budget covers five", async () => {
    const tenant = await createGatewayTenant();
    await tryBudget(tenant, { scope: "key", subject: tenant.keyId, lacking: "0", clients: [tenant.client] });
    await tenant.close();
  });

  test("admits four of 200 concurrent calls if the app's budget is USD 1e-12 short of five calls", async () => {
    const tenant = await createGatewayTenant();
    const app = await createApp({
      kind: "external",
      scopes: ["workspace:session", "ai:use"],
      workspaceId: tenant.workspaceId,
    });
    await tenant.db.query("update ai.keys set external_app_id = $2 where id = $1", [tenant.keyId, app.id]);
    await tryBudget(tenant, { scope: "app", subject: app.id, lacking: "1e-12", clients: [tenant.client] });
    await tenant.close();
  });

  test("admits five of 200 concurrent calls made with different credentials if the workspace's budget covers five", async () => {
    const tenant = await createGatewayTenant();
    const { accessToken } = await createMember(tenant);
    const workspace = { "X-Platform-Workspace-Id": tenant.workspaceId };
    const session = tenant.client.withOptions({ apiKey: accessToken, defaultHeaders: workspace });
    const clients = [tenant.client, session];
    await tryBudget(tenant, { scope: "workspace", subject: tenant.workspaceId, lacking: "0", clients });
    await tenant.close();
  });
});

const told = (headers: Headers) =>
  Object.fromEntries([...headers].filter(([name]) => /^(x-ratelimit-.+|retry-after)$/.test(name)));
const seconds = expect.stringMatching(/^([1-9]|[1-9][0-9]|1[01][0-9]|120)s$/);

/**
 * Opens rate-limit windows dated one minute ahead. Calls in the current minute already count in these windows, so the
 * counts do not reset if a new minute begins during a test.
 */
async function openWindows({ db, keyId, workspaceId }: GatewayTenant): Promise<void> {
  await db.query(
    `insert into ai.rate_windows (scope, subject_id, window_start, requests, tokens)
     select scope, subject_id::uuid, date_trunc('minute', now()) + interval '1 minute', 0, 0
     from (values ('key', $1), ('workspace', $2)) as w (scope, subject_id)`,
    [keyId, workspaceId],
  );
}

describe("rate limits", () => {
  let tenant: GatewayTenant;
  beforeAll(async () => {
    tenant = await createGatewayTenant();
    await openWindows(tenant);
  });
  afterAll(() => tenant.close());

  test("each answer states the rate limit and how much of it is left, and the third call is refused if two are allowed", async () => {
    await tenant.db.query("update ai.keys set requests_per_minute = 2, tokens_per_minute = 100000 where id = $1", [
      tenant.keyId,
    ]);
    await tenant.db.query(
      "insert into ai.workspace_policies (workspace_id, requests_per_minute, tokens_per_minute) values ($1, 50, 5000)",
      [tenant.workspaceId],
    );
    const { response } = await tenant.client.chat.completions.create(answered).withResponse();
    expect(told(response.headers)).toEqual({
      "x-ratelimit-limit-requests": "2",
      "x-ratelimit-remaining-requests": "1",
      "x-ratelimit-reset-requests": seconds,
      "x-ratelimit-limit-tokens": "5000",
      "x-ratelimit-remaining-tokens": expect.stringMatching(/^49\d{2}$/),
      "x-ratelimit-reset-tokens": seconds,
    });
    const streamed = await tenant.client.chat.completions.create({ ...answered, stream: true }).withResponse();
    expect(told(streamed.response.headers)).toMatchObject({ "x-ratelimit-remaining-requests": "0" });
    for await (const _ of streamed.data);

    const refused = await tenant.client.chat.completions.create(answered).catch((error) => error);
    expect(refused).toBeInstanceOf(OpenAI.RateLimitError);
    expect(refused.code).toBe("rate_limit_exceeded");
    expect(told(refused.headers)).toMatchObject({
      "retry-after": expect.stringMatching(/^([1-9]|[1-9][0-9]|1[01][0-9]|120)$/),
      "x-ratelimit-limit-requests": "2",
      "x-ratelimit-remaining-requests": "0",
      "x-ratelimit-reset-requests": seconds,
    });
    expect(await tenant.client.get("/key")).toMatchObject({
      limits: [{ scope: "key", remainingRequests: 0 }, { scope: "workspace" }],
    });
  });

  test("applies the workspace's rate limits to sessions too", async () => {
    const { accessToken } = await createMember(tenant);
    const workspace = { "X-Platform-Workspace-Id": tenant.workspaceId };
    const session = tenant.client.withOptions({ apiKey: accessToken, defaultHeaders: workspace });
    await tenant.db.query(
      "update ai.workspace_policies set tokens_per_minute = null, requests_per_minute = 3 where workspace_id = $1",
      [tenant.workspaceId],
    );
    const { response } = await session.chat.completions.create(answered).withResponse();
    expect(told(response.headers)).toMatchObject({
      "x-ratelimit-limit-requests": "3",
      "x-ratelimit-remaining-requests": "0",
      "x-ratelimit-reset-requests": seconds,
    });
    await expect(session.chat.completions.create(answered)).rejects.toMatchObject({ code: "rate_limit_exceeded" });
  });
});

describe("token limits", () => {
  let tenant: GatewayTenant;
  beforeEach(async () => {
    tenant = await createGatewayTenant();
    await openWindows(tenant);
  });
  afterEach(() => tenant.close());

  const limitKey = (limits: { requests?: number; tokens?: number }) =>
    tenant.db.query("update ai.keys set requests_per_minute = $2, tokens_per_minute = $3 where id = $1", [
      tenant.keyId,
      limits.requests ?? null,
      limits.tokens ?? null,
    ]);
  const remaining = async () => {
    const key = (await tenant.client.get("/key")) as { limits: { remainingTokens: number }[] };
    return key.limits[0]?.remainingTokens;
  };
  const call = (changes: object = {}) => tenant.client.chat.completions.create({ ...answered, ...changes });

  test("admits a call without an output limit even if the token limit is below the default output limit", async () => {
    await limitKey({ tokens: 2_000 });
    const { data, response } = await call().withResponse();
    const left = 2_000 - (data.usage?.total_tokens ?? 0);
    expect(left).toBeGreaterThan(1_900);
    expect(response.headers.get("x-ratelimit-remaining-tokens")).toBe(String(left));
    await expect.poll(remaining).toBe(left);
  });

  test("counts the usage of sequential and concurrent calls against the token limit", async () => {
    await limitKey({ tokens: 10_000 });
    let used = 0;
    const one = async () => {
      const { usage } = await call();
      used += usage?.total_tokens ?? 0;
    };
    for (let n = 0; n < 20; n++) await one();
    await Promise.all(Array.from({ length: 8 }, one));
    expect(used).toBeLessThan(1_500);
    await expect.poll(remaining).toBe(10_000 - used);
  });

  test("the token limit also counts the tokens used by streams, tool calls, failed calls and abandoned calls", {
    tags: "needs-stack-server",
  }, async () => {
    await limitKey({ tokens: 10_000 });
    for await (const _ of await tenant.client.chat.completions.create({ ...answered, stream: true }));
    const prompt = [{ role: "user", content: 'call calculator with {"expression":"6*7"}' }];
    await call({ messages: prompt, tools: ["calculator"] });
    await expect(call({ model: "demo-error-500" })).rejects.toMatchObject({ status: 502 });
    const leaving = new AbortController();
    const left = tenant.client.chat.completions.create(unanswered, { signal: leaving.signal }).catch(() => {});
    setTimeout(() => leaving.abort(), 200);
    await left;
    const open = "select count(*)::int as runs from ai.runs where workspace_id = $1 and status = 'running'";
    await expect.poll(() => tenant.db.query(open, [tenant.workspaceId])).toEqual([{ runs: 0 }]);
    const sum =
      "select sum(input_tokens + output_tokens)::int as used, count(*)::int as runs from ai.runs where workspace_id = $1";
    const [runs] = await tenant.db.query<{ used: number; runs: number }>(sum, [tenant.workspaceId]);
    expect(runs?.runs).toBe(4);
    expect(await remaining()).toBe(10_000 - (runs?.used ?? 0));
  });

  test("refuses a call larger than the entire token limit with 400, and admits a call of exactly that size", async () => {
    await limitKey({ tokens: 2_000 });
    const refused = await call({ max_completion_tokens: 3_000 }).catch((error) => error);
    expect(refused).toBeInstanceOf(OpenAI.BadRequestError);
    expect(refused).toMatchObject({ code: "invalid_request", param: "max_completion_tokens" });
    expect(told(refused.headers)).toEqual({});
    const counts =
      /^400 The key “.+” allows 2,000 tokens per minute; this request counts (3,0\d\d) \(\d+ of input\)\. With `max_completion_tokens` 1,9\d\d it fits\.$/;
    const counted = Number(counts.exec(refused.message)?.[1]?.replace(",", ""));
    expect(await remaining()).toBe(2_000);

    await limitKey({ tokens: counted - 1 });
    await expect(call({ max_completion_tokens: 3_000 })).rejects.toMatchObject({ status: 400 });
    await limitKey({ tokens: counted });
    await call({ max_completion_tokens: 3_000 });
  });

  test("refuses an input larger than the entire token limit and names the field to shorten", async () => {
    await limitKey({ tokens: 10 });
    await expect(call()).rejects.toMatchObject({ status: 400, param: "messages" });
    await expect(tenant.client.responses.create({ model: "demo-chat", input: "hello there" })).rejects.toMatchObject({
      status: 400,
      param: "input",
    });
    await expect(
      tenant.client.embeddings.create({ model: "demo-embedding", input: "hello there, long enough for this" }),
    ).rejects.toMatchObject({ status: 400, param: "input" });
  });

  test("states the workspace's token limits in the headers even if the key's request limit refuses a call", async () => {
    await limitKey({ requests: 1 });
    await tenant.db.query("insert into ai.workspace_policies (workspace_id, tokens_per_minute) values ($1, 5000)", [
      tenant.workspaceId,
    ]);
    await call();
    const refused = await call().catch((error) => error);
    expect(refused).toBeInstanceOf(OpenAI.RateLimitError);
    expect(told(refused.headers)).toEqual({
      "retry-after": expect.stringMatching(/^\d+$/),
      "x-ratelimit-limit-requests": "1",
      "x-ratelimit-remaining-requests": "0",
      "x-ratelimit-reset-requests": seconds,
      "x-ratelimit-limit-tokens": "5000",
      "x-ratelimit-remaining-tokens": expect.stringMatching(/^4[49]\d\d$/),
      "x-ratelimit-reset-tokens": seconds,
    });
  });
});
