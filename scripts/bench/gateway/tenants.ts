import { createClient } from "@supabase/supabase-js";
import type pg from "pg";
import { createAiKey } from "#shared/ai-key.ts";
import type { Stack } from "../../test/stack.ts";

/** The plan of the bench's workspaces. Its limits are checked on every call but are too high to be reached. */
export const benchPlan = "bench";

const credits = "1000000000";
const requestsPerMinute = 100_000_000;
const tokensPerMinute = 1_000_000_000_000;

/** Workspaces of one owner, each with one key. */
export type Tenants = { ownerId: string; keys: string[] };

/**
 * Creates `count` workspaces. Each has a balance, a policy that lists its models, a key, and request and token limits
 * on both key and workspace, so that each call goes through every check.
 */
export async function createTenants(
  client: pg.Client,
  { stack, count }: { stack: Stack; count: number },
): Promise<Tenants> {
  const ownerId = await createOwner(stack);
  const keys = await Promise.all(Array.from({ length: count }, createAiKey));
  await client.query("begin");
  await client.query(
    `insert into ai.plans (id, name, payer, markup, initial_credits, requests_per_minute, tokens_per_minute)
     values ($1, 'Bench', 'workspace', 1.2, 0, $2, $3)`,
    [benchPlan, requestsPerMinute, tokensPerMinute],
  );
  await client.query("insert into ai.model_grants (model_id, plan_id) values ('demo-chat', $1)", [benchPlan]);
  const { rows } = await client.query<{ id: string }>(
    `insert into public.workspaces (name, plan_id, created_by)
     select 'Bench ' || number, $1, $2 from generate_series(1, $3::integer) number returning id`,
    [benchPlan, ownerId, keys.length],
  );
  const workspaces = rows.map(({ id }) => id);
  await client.query("insert into ai.key_approvals (workspace_id) select unnest($1::uuid[])", [workspaces]);
  await client.query(
    `insert into ai.workspace_policies (workspace_id, allowed_models, requests_per_minute, tokens_per_minute)
     select unnest($1::uuid[]), '{demo-chat}', $2, $3`,
    [workspaces, requestsPerMinute, tokensPerMinute],
  );
  await client.query("select ai.grant_credits('workspace', id, $2, 'Bench') from unnest($1::uuid[]) id", [
    workspaces,
    credits,
  ]);
  await client.query(
    `select ai.create_key(
       k.workspace_id, $1, 'Bench', k.lookup, k.hash,
       allowed_models => '{demo-chat}', requests_per_minute => $5, tokens_per_minute => $6
     )
     from unnest($2::uuid[], $3::text[], $4::bytea[]) k (workspace_id, lookup, hash)`,
    [
      ownerId,
      workspaces,
      keys.map(({ lookup }) => lookup),
      keys.map(({ hash }) => Buffer.from(hash)),
      requestsPerMinute,
      tokensPerMinute,
    ],
  );
  await client.query("commit");
  // Skips empty tables. If they were analyzed, Postgres would plan for an empty table until the next analyze.
  await client.query(
    "analyze public.workspaces, ai.plans, ai.workspace_policies, ai.credit_accounts, ai.credit_ledger, ai.keys",
  );
  return { ownerId, keys: keys.map(({ text }) => text) };
}

async function createOwner({ supabase }: Stack): Promise<string> {
  const { auth } = createClient(supabase.url, supabase.secretKey, { auth: { persistSession: false } });
  const { data, error } = await auth.admin.createUser({
    email: "bench@gatehouse.test",
    password: crypto.randomUUID(),
    email_confirm: true,
  });
  if (error) throw error;
  return data.user.id;
}
