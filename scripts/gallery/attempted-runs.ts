import type pg from "pg";
import type { Attempt } from "#shared/attempt.ts";
import { type ChargedCall, computeRunCost } from "#shared/call-price.ts";

const rejected: Attempt = {
  route: 1,
  provider: "demo",
  model: "demo-chat",
  status: 401,
  failure: "unauthorized",
  upstream_request_id: "req_0c8f2e1b7d5a4c3f9e6b",
  latency_ms: 81,
};
const answered: Attempt = {
  route: 2,
  provider: "azure-sweden-central",
  model: "gpt-4.1-mini-2025-04-14",
  status: 200,
  upstream_request_id: "3f1c6a52-8d0e-4b7c-9a11-5e2f7d90c4ab",
  latency_ms: 640,
};
const timedOut: Attempt = { ...answered, failure: "timeout", may_have_charged: true, latency_ms: 30_000 };
delete timedOut.status;
delete timedOut.upstream_request_id;
const skipped: Attempt = { route: 1, provider: "demo", model: "demo-chat", failure: "skipped", latency_ms: 0 };

const prices = [
  {
    min_input_tokens: 0,
    input: "2.500000",
    cached_input: "0.250000",
    cache_write: "3.125000",
    output: "8.000000",
    audio_input: "40.000000",
    request_fee: "0.010000",
  },
  { min_input_tokens: 200_000, input: "5.000000", output: "12.000000" },
];
const routes = [skipped, answered].map(({ route, provider, model }) => ({
  position: route,
  provider,
  model,
  ...(provider === answered.provider ? { region: "eu" } : {}),
  prices,
  tier_multipliers: { priority: 1.75 },
}));
/** Two calls of a run with tools: one with tokens of every class at another service tier, and one with a long input. */
const calls: ChargedCall[] = [
  {
    route: 2,
    usage: {
      input_tokens: 4_200,
      cached_input_tokens: 1_024,
      cache_write_tokens: 512,
      audio_input_tokens: 300,
      image_input_tokens: 765,
      output_tokens: 180,
      fee_requests: 2,
    },
    servedTier: "priority",
  },
  { route: 2, usage: { input_tokens: 214_000, output_tokens: 950, reasoning_tokens: 400 } },
];

/**
 * Adds three runs: one whose first route rejected the key, one that no route answered, and one that consists of several
 * calls. Also adds models without a route or a price.
 * @returns the ids of the runs
 */
export async function addAttemptedRuns(
  client: pg.Client,
  { workspaceId, keyId }: { workspaceId: string; keyId: string },
): Promise<{ retriedRunId: string; failedRunId: string; toolRunId: string }> {
  await client.query(
    `insert into ai.models (id, kind, display_name, owned_by)
     values ('gallery-no-route', 'chat', 'No route yet', 'gallery'), ('gallery-no-price', 'chat', 'No price yet', 'gallery')
     on conflict do nothing`,
  );
  await client.query(
    `insert into ai.model_routes (model_id, position, provider_id, provider_model)
     values ('gallery-no-price', 1, 'openai', 'gpt-next') on conflict do nothing`,
  );
  const retriedRunId = await settledRun(client, {
    workspaceId,
    keyId,
    outcome: {
      status: "succeeded",
      http_status: 200,
      usage_source: "provider",
      route: 2,
      input_tokens: 1_250,
      output_tokens: 340,
      cost_usd: "0.005845",
      credits: "58.45",
      served_tier: "default",
      first_byte_ms: 402,
      latency_ms: 721,
      steps: [
        { step: 1, type: "retry", name: "demo-chat", status: "failed", latency_ms: 81 },
        { step: 2, type: "model", name: "demo-chat", status: "succeeded", latency_ms: 640 },
      ],
      attempts: [rejected, answered],
    },
  });
  const failedRunId = await settledRun(client, {
    workspaceId,
    keyId,
    outcome: {
      status: "failed",
      http_status: 504,
      error_code: "provider_timeout",
      usage_source: "unavailable",
      latency_ms: 30_004,
      steps: [{ step: 1, type: "model", name: "demo-chat", status: "failed", latency_ms: 30_000 }],
      attempts: [skipped, timedOut],
    },
  });
  const toolRunId = await settledRun(client, {
    workspaceId,
    keyId,
    outcome: {
      status: "succeeded",
      http_status: 200,
      usage_source: "provider",
      route: 2,
      input_tokens: 218_200,
      cached_input_tokens: 1_024,
      cache_write_tokens: 512,
      audio_input_tokens: 300,
      image_input_tokens: 765,
      output_tokens: 1_130,
      reasoning_tokens: 400,
      fee_requests: 2,
      served_tier: "priority",
      ...computeRunCost({ routes, credits_per_usd: "10000" }, calls),
      first_byte_ms: 610,
      latency_ms: 9_410,
      steps: [
        { step: 1, type: "model", name: "demo-chat", status: "succeeded", latency_ms: 2_100 },
        { step: 2, type: "tool", name: "calculator", status: "succeeded", latency_ms: 1 },
        { step: 3, type: "model", name: "demo-chat", status: "succeeded", latency_ms: 7_300 },
      ],
      attempts: calls.map(({ route, usage, servedTier }, index) => ({
        ...answered,
        ...(index === 0
          ? { latency_ms: 2_100 }
          : { latency_ms: 7_300, upstream_request_id: "b70d92f4-1c3e-4d58-8f26-a94e0c7d5b13" }),
        route,
        charged: { ...usage, served_tier: servedTier },
      })),
    },
  });
  return { retriedRunId, failedRunId, toolRunId };
}

async function settledRun(
  client: pg.Client,
  {
    workspaceId,
    keyId,
    outcome,
  }: { workspaceId: string; keyId: string; outcome: { latency_ms: number; [field: string]: unknown } },
): Promise<string> {
  const { rows } = await client.query<{ id: string }>(
    `insert into ai.runs (
       id, created_at, workspace_id, key_id, key_lineage_id, credential_source, execution_mode, model_id, feature, request_id, routes,
       markup, exempt, reserved_usd, reserved_credits
     )
     select ai.run_id(began), began, $1, $2, $2, 'key', 'background', 'demo-chat', 'reports.summary', 'req-9b41', $3, 1, true,
       0, 0
     from (select now() - $4 * interval '1 millisecond' as began) as run
     returning id`,
    [workspaceId, keyId, JSON.stringify(routes), outcome.latency_ms],
  );
  const id = rows[0]?.id ?? "";
  await client.query(
    `select ai.settle_runs(jsonb_build_array(jsonb_build_object('created_at', created_at, 'id', id) || $2::jsonb))
     from ai.runs where id = $1`,
    [id, JSON.stringify(outcome)],
  );
  return id;
}
