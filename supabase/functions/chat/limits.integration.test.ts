import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createApp } from "../../../scripts/test/apps.ts";
import { createGatewayTenant, type GatewayTenant } from "../../tests/ai-gateway-tenant.ts";
import { createMember } from "../../tests/gateway-callers.ts";

/** Nobody answers this one, so that what its calls hold is held until they are left. The name is as long as demo-chat. */
const unanswered = { model: "demo-hang", messages: [{ role: "user" as const, content: "hello" }] };
const answered = { ...unanswered, model: "demo-chat" };

/** What one call of the above holds of a budget, in exact decimals. */
async function heldByOne(tenant: GatewayTenant): Promise<string> {
  const { platform } = (await tenant.client.chat.completions.create(answered)) as unknown as {
    platform: { run_id: string };
  };
  const sql = "select reserved_usd::text as held from ai.runs where id = $1";
  const [row] = await tenant.db.query<{ held: string }>(sql, [platform.run_id]);
  return row?.held ?? "";
}

/** Calls all at once, waits until all but so many are refused, and leaves those. @returns the refusals */
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

describe("of 200 calls at once at the edge of a budget", () => {
  /** Sets a budget that covers five calls, or lacks the last digit for the fifth, and tries it. */
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

  test("of a key, five are admitted where it covers five", async () => {
    const tenant = await createGatewayTenant();
    await tryBudget(tenant, { scope: "key", subject: tenant.keyId, lacking: "0", clients: [tenant.client] });
    await tenant.close();
  });

  test("of an app, four where the last digit of the fifth is lacking", async () => {
    const tenant = await createGatewayTenant();
    const app = await createApp({ kind: "external", scopes: ["ai:use"], workspaceId: tenant.workspaceId });
    await tenant.db.query("update ai.keys set external_app_id = $2 where id = $1", [tenant.keyId, app.id]);
    await tryBudget(tenant, { scope: "app", subject: app.id, lacking: "1e-12", clients: [tenant.client] });
    await tenant.close();
  });

  test("of a workspace, five, by whatever credential they come", async () => {
    const tenant = await createGatewayTenant();
    const { accessToken } = await createMember(tenant);
    const workspace = { "X-Platform-Workspace-Id": tenant.workspaceId };
    const session = tenant.client.withOptions({ apiKey: accessToken, defaultHeaders: workspace });
    const clients = [tenant.client, session];
    await tryBudget(tenant, { scope: "workspace", subject: tenant.workspaceId, lacking: "0", clients });
    await tenant.close();
  });
});

describe("rate limits", () => {
  let tenant: GatewayTenant;
  beforeAll(async () => {
    tenant = await createGatewayTenant();
    // Windows that begin a minute ahead hold for this minute and the next, so that no turn of one comes in between.
    await tenant.db.query(
      `insert into ai.rate_windows (scope, subject_id, window_start, requests, tokens)
       select scope, subject_id::uuid, date_trunc('minute', now()) + interval '1 minute', 0, 0
       from (values ('key', $1), ('workspace', $2)) as w (scope, subject_id)`,
      [tenant.keyId, tenant.workspaceId],
    );
  });
  afterAll(() => tenant.close());

  const told = (headers: Headers) =>
    Object.fromEntries([...headers].filter(([name]) => /^(x-ratelimit-.+|retry-after)$/.test(name)));
  const seconds = expect.stringMatching(/^([1-9]|[1-9][0-9]|1[01][0-9]|120)s$/);

  test("are told with each answer, streamed or not, by whichever has less left; the third of two is refused", async () => {
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
      "x-ratelimit-remaining-tokens": expect.stringMatching(/^2\d{3}$/),
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

  test("of the workspace hold for sessions too", async () => {
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
