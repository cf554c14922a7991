import { createHash, randomBytes, randomUUID } from "node:crypto";
import type { Run } from "../../functions/_gateway/database/database.ts";
import { type LimitReport, type RateLimits, readRateLimits } from "../../functions/_gateway/database/rate-limits.ts";
import { computeRunCost } from "../../functions/_shared/call-price.ts";
import type { TokenCounts } from "../../functions/_shared/money.ts";
import { createUser, type Database, one } from "../database.ts";

/** A workspace that may call the gateway, with its own plan, model and prices. */
export type Tenant = {
  workspaceId: string;
  ownerId: string;
  keyId: string;
  keyHash: string;
  planId: string;
  model: string;
};

export type TenantOptions = {
  payer?: "workspace" | "member";
  credits?: string;
  markup?: string;
  initialCredits?: string;
  plan?: { requestsPerMinute?: number; tokensPerMinute?: number };
  key?: {
    requestsPerMinute?: number;
    tokensPerMinute?: number;
    monthlyBudgetUsd?: string;
    allowedModels?: string[];
    entityId?: string;
  };
  /** USD per million tokens. */
  prices?: { input: string; cachedInput?: string; output: string };
};

const providerId = "demo";

/** Creates a tenant that shares nothing with other tests. */
export async function createTenant(db: Database, options: TenantOptions = {}): Promise<Tenant> {
  const id = randomBytes(6).toString("hex");
  const planId = `plan_${id}`;
  const model = `model-${id}`;
  const payer = options.payer ?? "workspace";
  const owner = await createUser(db);
  await db.query(
    `insert into ai.plans (id, name, payer, markup, initial_credits, requests_per_minute, tokens_per_minute)
     values ($1, 'Test', $2, $3, $4, $5, $6)`,
    [
      planId,
      payer,
      options.markup ?? "1",
      options.initialCredits ?? "0",
      options.plan?.requestsPerMinute ?? null,
      options.plan?.tokensPerMinute ?? null,
    ],
  );
  const [workspace] = await db.query<{ id: string }>(
    "insert into public.workspaces (name, plan_id, created_by) values ('Test', $1, $2) returning id",
    [planId, owner.id],
  );
  if (!workspace) throw new Error("no workspace");
  await addModel(db, { model, planId, prices: options.prices });
  await db.query("insert into ai.key_approvals (workspace_id) values ($1)", [workspace.id]);
  const tenant = { workspaceId: workspace.id, ownerId: owner.id, planId, model };
  const key = await addKey(db, tenant, options.key);
  if (options.credits) {
    await db.query("select ai.grant_credits($1, $2, $3, 'test')", [
      payer,
      payer === "workspace" ? workspace.id : owner.id,
      options.credits,
    ]);
  }
  return { ...tenant, keyId: key.id, keyHash: key.hash };
}

/** Adds a chat model with one route and one price, granted to the plan. */
async function addModel(
  db: Database,
  { model, planId, prices }: { model: string; planId: string; prices?: TenantOptions["prices"] },
): Promise<void> {
  const { input, cachedInput, output } = prices ?? { input: "0.15", output: "0.6" };
  // Inserts everything in one statement, so that `npm run doctor`, which may check the stack at any time, never finds
  // an incomplete model.
  await db.query(
    `with model as (
       insert into ai.models (id, kind, display_name, owned_by) values ($1, 'chat', $1, 'test')
     ), route as (
       insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, 1, $2, 'upstream')
     )
     insert into ai.model_prices
       (model_id, provider_id, input_usd_per_million, cached_input_usd_per_million, output_usd_per_million)
     values ($1, $2, $3, $4, $5)`,
    [model, providerId, input, cachedInput ?? null, output],
  );
  await db.query("insert into ai.model_grants (model_id, plan_id) values ($1, $2)", [model, planId]);
}

/** Adds a key to the tenant's workspace. */
export async function addKey(
  db: Database,
  { workspaceId, ownerId }: { workspaceId: string; ownerId: string },
  options: TenantOptions["key"] = {},
): Promise<{ id: string; hash: string }> {
  const hash = createHash("sha256").update(randomUUID()).digest();
  const [row] = await db.query<{ id: string }>(
    `select ai.create_key(
       workspace_id => $1, created_by => $2, name => 'test', lookup => $3, secret_hash => $4, allowed_models => $5,
       requests_per_minute => $6, tokens_per_minute => $7, monthly_budget_usd => $8, entity_id => $9
     ) as id`,
    [
      workspaceId,
      ownerId,
      randomBytes(6).toString("hex"),
      hash,
      options.allowedModels ?? null,
      options.requestsPerMinute ?? null,
      options.tokensPerMinute ?? null,
      options.monthlyBudgetUsd ?? null,
      options.entityId ?? null,
    ],
  );
  if (!row) throw new Error("no key");
  return { id: row.id, hash: hash.toString("hex") };
}

/** Returns the argument of `ai.begin_runs`, with the shortest waits. */
export function batchOf(calls: readonly object[]): string {
  return JSON.stringify({ calls, wait_ms: 1_200, lock_wait_ms: 1_000 });
}

/** Returns what the gateway passes to `ai.begin_runs` for a chat call: by default 300 bytes and 100 output tokens. */
export function chatCall(tenant: Pick<Tenant, "keyHash" | "model">, changes: object = {}): object {
  return {
    credential: { source: "key", hash: tenant.keyHash },
    request_id: `test-${randomUUID()}`,
    feature: "chat",
    kind: "chat",
    model: tenant.model,
    providers: [providerId],
    input_bytes: 300,
    output_limit: 100,
    ...changes,
  };
}

export type OpenedRun = Pick<Run, "run_id" | "created_at" | "routes" | "reserved_usd" | "credits_per_usd"> & {
  refused?: string;
  reserved_credits: string;
  limits: LimitReport;
  /** The time of the call. Present only in a refusal. */
  at?: string;
};

/** Returns the rate limits as a response would report them to the caller. */
export function limitsOf({ limits, at, created_at }: OpenedRun) {
  const { requests, tokens, resetSeconds } = readRateLimits(limits, at ?? created_at);
  const roomOf = (room: RateLimits["requests"]) => room && { limit: room.limit, remaining: room.remaining };
  return { requests: roomOf(requests), tokens: roomOf(tokens), resetSeconds };
}

/** Calls `ai.begin_runs` with one call. */
export function begin(db: Database, call: object): Promise<OpenedRun> {
  return retryContended(async () => {
    const sql = "select ai.begin_runs($1)::json -> 0 as answer";
    const [row] = await db.query<{ answer: OpenedRun }>(sql, [batchOf([call])]);
    if (!row) throw new Error("begin_runs answered nothing");
    return row.answer;
  });
}

/** Lock not available, query canceled. */
const contended = ["55P03", "57014"];

/**
 * Sends a call again that waited for a lock for too long, or came too late, because the machine is busy, as the gateway
 * and then the client do.
 * @param codes the SQLSTATEs of such failures
 */
export async function retryContended<Answer>(
  send: () => Promise<Answer>,
  codes: readonly string[] = contended,
): Promise<Answer> {
  for (let retries = 20; ; retries -= 1) {
    try {
      return await send();
    } catch (error) {
      const code = error instanceof Error && "code" in error ? String(error.code) : "";
      if (retries === 0 || !codes.includes(code)) throw error;
    }
  }
}

export async function checkCredential(db: Database, call: object): Promise<object | undefined> {
  const sql = "select ai.check_credential($1) as answer";
  return (await db.query<{ answer: object }>(sql, [JSON.stringify(call)]))[0]?.answer;
}

/**
 * Begins runs like begin_runs, but without a lock timeout. If the lock order is wrong, the calls wait until Postgres
 * reports a deadlock.
 */
export async function admitAll(db: Database, calls: readonly object[]): Promise<OpenedRun[]> {
  const [row] = await db.query<{ answers: OpenedRun[] }>(
    "select array_to_json(ai.admit_calls($1)::json[]) as answers",
    [JSON.stringify(calls)],
  );
  return row?.answers ?? [];
}

type OutcomeChanges = {
  route?: number;
  usage?: TokenCounts;
  estimated?: boolean;
  usage_source?: string;
  [member: string]: unknown;
};

/**
 * Returns an outcome as the gateway reports it to `ai.settle_runs`: succeeded, in one call, with the provider's own
 * counts.
 */
export function outcome(run: OpenedRun, changes: OutcomeChanges = {}): object {
  const { route = 1, usage = { input_tokens: 13, output_tokens: 7 }, estimated = false, ...rest } = changes;
  return {
    created_at: run.created_at,
    id: run.run_id,
    status: "succeeded",
    http_status: 200,
    usage_source: "provider",
    ...(rest.usage_source === "unavailable"
      ? {}
      : { route, estimated, ...usage, ...computeRunCost(run, [{ route, usage }]) }),
    latency_ms: 5,
    steps: [{ step: 1, type: "model", name: "demo", status: "succeeded", latency_ms: 5 }],
    ...rest,
  };
}

/**
 * Calls `ai.settle_runs`.
 * @returns the runs that it changed
 */
export async function settle(
  db: Database,
  outcomes: object[],
): Promise<{ id: string; kind: string; billed_credits: string }[]> {
  const [row] = await db.query<{ answer: { id: string; kind: string; billed_credits: string }[] }>(
    "select ai.settle_runs($1) as answer",
    [JSON.stringify(outcomes)],
  );
  return row?.answer ?? [];
}

/** Returns the totals of the tenant's account, ledger and runs, as exact decimals. */
export async function books(
  db: Database,
  { workspaceId, ownerId }: Pick<Tenant, "workspaceId" | "ownerId">,
): Promise<{
  balance: string;
  reserved: string;
  ledger: string;
  used: string;
  runs: string;
  open: number;
}> {
  const [row] = await db.query(
    `select
       a.balance::text, a.reserved::text,
       (select coalesce(sum(l.amount), 0)::numeric(24, 8)::text from ai.credit_ledger l where l.account_id = a.id) as ledger,
       (select coalesce(-sum(l.amount), 0)::numeric(24, 8)::text from ai.credit_ledger l
        where l.account_id = a.id and l.run_id is not null) as used,
       (select coalesce(sum(r.billed_credits), 0)::numeric(24, 8)::text from ai.runs r where r.account_id = a.id) as runs,
       (select count(*)::int from ai.runs r where r.account_id = a.id and r.status = 'running') as open
     from ai.credit_accounts a
     where a.workspace_id = $1 or a.user_id = $2`,
    [workspaceId, ownerId],
  );
  return row as Awaited<ReturnType<typeof books>>;
}

/** Backdates runs as if they had sent no heartbeat for the given seconds, so that the sweeper finds them. */
export async function abandon(
  db: Database,
  runs: Pick<OpenedRun, "created_at" | "run_id"> | readonly Pick<OpenedRun, "created_at" | "run_id">[],
  seconds = 46,
): Promise<void> {
  await db.query(
    `with silent as (
       update ai.runs r set touched_at = now() - $2 * interval '1 second'
       from jsonb_to_recordset($1) as a (created_at timestamptz, run_id uuid)
       where r.created_at = a.created_at and r.id = a.run_id
       returning r.created_at, r.id
     )
     insert into ai.long_running_runs (run_created_at, run_id) select created_at, id from silent on conflict do nothing`,
    [JSON.stringify([runs].flat()), seconds],
  );
}

/** Sets the tenant's reserved credits to 0, so that settling any of its runs fails. */
export async function forgetReservation(db: Database, { workspaceId }: Pick<Tenant, "workspaceId">): Promise<void> {
  await db.query("update ai.credit_accounts set reserved = 0 where workspace_id = $1", [workspaceId]);
}

/** Returns a run's row, with amounts as exact decimals. */
export async function runRow(db: Database, run: OpenedRun): Promise<Record<string, unknown>> {
  return one(db, {
    sql: `select status, usage_source, cost_usd::text, billed_credits::text, unmetered_credits::text, swept,
            input_tokens::int, output_tokens::int, http_status, route
          from ai.runs where created_at = $1 and id = $2`,
    values: [run.created_at, run.run_id],
  });
}
