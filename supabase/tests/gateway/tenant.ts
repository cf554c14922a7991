import { setTimeout as sleep } from "node:timers/promises";
import OpenAI from "openai";
import { readStack } from "../../../scripts/test/stack.ts";
import { createAiKey } from "../../functions/_shared/ai-key.ts";
import type { Attempt } from "../../functions/_shared/attempt.ts";
import { createUser } from "../database.ts";
import { keptPool } from "../pools.ts";

/** A run's row, its ledger entry and the provider's own record of it. */
export type Account = {
  run: {
    status: string;
    usage_source: string;
    http_status: number;
    input_tokens: number;
    cached_input_tokens: number;
    output_tokens: number;
    reasoning_tokens: number;
    cost_usd: string;
    billed_credits: string;
    entity_id: string | null;
    served_tier: string | null;
    /** A JSON number, so it is not exact. */
    reserved_usd: number;
    reserved_credits: string;
    streamed: boolean;
    swept: boolean;
    feature: string;
    error_code: string | null;
    /** Null for a run without a request to a provider. */
    attempts: Attempt[] | null;
  };
  charged: string;
  steps: { step: number; type: string; name: string; status: string }[];
  truth: {
    model: string;
    status: number | null;
    aborted: boolean;
    usage: { input: number; cachedInput: number; output: number; reasoning: number };
    /** The provider's charge for a call of the Messages API, in USD with 12 decimals. */
    billedUsd: string | null;
  }[];
};

/** A caller of the running gateway, in a workspace of its own. */
export type GatewayTenant = {
  key: string;
  workspaceId: string;
  keyId: string;
  client: OpenAI;
  db: ReturnType<typeof keptPool>["db"];
  /** Waits until the request's run is settled, and returns all its records. */
  accountOf: (requestId: string) => Promise<Account>;
  /** Balance, ledger and runs of the workspace, as exact decimals; all of them must agree. */
  books: () => Promise<{ granted: string; balance: string; ledger: string; runs: string; reserved: string }>;
  close: () => Promise<void>;
};

const settleTimeoutMs = 10_000;

/** Creates a team workspace with credits and a key on the running stack, and an `openai` client with that key. */
export async function createGatewayTenant({ credits = "1000000" } = {}): Promise<GatewayTenant> {
  const stack = readStack();
  const { db, close } = keptPool();
  const owner = await createUser(db);
  const [workspace] = await db.query<{ id: string }>(
    "insert into public.workspaces (name, plan_id, created_by) values ('Gateway test', 'team', $1) returning id",
    [owner.id],
  );
  const workspaceId = workspace?.id ?? "";
  await db.query("insert into ai.key_approvals (workspace_id) values ($1)", [workspaceId]);
  await db.query("select ai.grant_credits('workspace', $1, $2, 'test')", [workspaceId, credits]);
  const { text: key, lookup, hash } = await createAiKey();
  const [created] = await db.query<{ id: string }>("select ai.create_key($1, $2, 'test', $3, $4) as id", [
    workspaceId,
    owner.id,
    lookup,
    Buffer.from(hash),
  ]);
  const client = new OpenAI({ baseURL: `${stack.ai}/v1`, apiKey: key, maxRetries: 0 });

  async function accountOf(requestId: string): Promise<Account> {
    const deadline = Date.now() + settleTimeoutMs;
    for (;;) {
      const [row] = await db.query(
        `select r.id, to_jsonb(r) as run, r.cost_usd::text, r.billed_credits::text, r.reserved_credits::text,
           coalesce((select (-sum(l.amount))::text from ai.credit_ledger l where l.run_id = r.id), '0.00000000') as charged,
           (select coalesce(jsonb_agg(s.step - 'latency_ms' order by s.place), '[]')
            from jsonb_array_elements(r.steps) with ordinality as s (step, place)) as steps
         from ai.runs r
         where r.workspace_id = $1 and r.request_id = $2 and r.status <> 'running'`,
        [workspaceId, requestId],
      );
      if (row) {
        const { id, cost_usd, billed_credits, reserved_credits, charged, steps } = row;
        const truth = await readTruth(stack.provider, id);
        return { run: { ...row.run, cost_usd, billed_credits, reserved_credits }, charged, steps, truth };
      }
      if (Date.now() > deadline) throw new Error(`the run of ${requestId} was not settled in time`);
      await sleep(20);
    }
  }

  async function books() {
    const [row] = await db.query(
      `select a.balance::text, a.reserved::text, $2::numeric(24, 8)::text as granted,
         (select sum(l.amount)::text from ai.credit_ledger l where l.account_id = a.id) as ledger,
         (select coalesce(sum(r.billed_credits), 0)::numeric(24, 8)::text from ai.runs r where r.workspace_id = $1) as runs
       from ai.credit_accounts a where a.workspace_id = $1`,
      [workspaceId, credits],
    );
    return row as Awaited<ReturnType<GatewayTenant["books"]>>;
  }

  return { key, workspaceId, keyId: created?.id ?? "", client, db, accountOf, books, close };
}

/** Waits until the provider's calls for a run have ended, and returns the provider's record of the calls. */
async function readTruth(provider: string, runId: string): Promise<Account["truth"]> {
  const deadline = Date.now() + settleTimeoutMs;
  for (;;) {
    const response = await fetch(`${provider}/truth?request_id=${runId}`);
    const { calls } = (await response.json()) as { calls: (Account["truth"][number] & { endedAt: string | null })[] };
    if (calls.every(({ endedAt }) => endedAt !== null) || Date.now() > deadline) return calls;
    await sleep(20);
  }
}
