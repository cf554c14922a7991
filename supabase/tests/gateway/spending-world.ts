import { createHash, randomUUID } from "node:crypto";
import type { Random } from "../../../scripts/soak/random.ts";
import { type Database, one } from "../database.ts";
import { batchOf, chatCall, createTenant, retryContended } from "./fixtures.ts";
import type { State } from "./spending-model.ts";

type Key = { lineageId: string; hash: string; label: string | null };
export type Spender = { workspaceId: string; keys: [Key, Key] };
export type SpendingWorld = { model: string; ownerId: string; spenders: Spender[] };

/** A run that costs this number of output tokens costs as many dollars. */
const prices = { input: "0", output: "1000000" };
const keyLabel = "job:7";

/** Creates workspaces with a key and a labelled key each, in a few statements. */
export async function createSpenders(db: Database, count: number): Promise<SpendingWorld> {
  const { model, planId, ownerId } = await createTenant(db, { prices });
  const workspaces = await db.query<{ id: string }>(
    `insert into public.workspaces (name, plan_id, created_by)
     select 'Spending', $1, $2 from generate_series(1, $3) returning id`,
    [planId, ownerId, count],
  );
  const ids = workspaces.map(({ id }) => id);
  await db.query("insert into ai.key_approvals (workspace_id) select unnest($1::uuid[])", [ids]);
  await db.query("select ai.grant_credits('workspace', w, 1000000000, 'test') from unnest($1::uuid[]) as w", [ids]);
  const keys = ids.flatMap((workspaceId) =>
    [null, keyLabel].map((label) => {
      const hash = createHash("sha256").update(randomUUID()).digest("hex");
      return { workspaceId, label, hash, lookup: hash.slice(0, 12) };
    }),
  );
  const made = await db.query<{ hash: string; id: string }>(
    `select k.hash, ai.create_key(
       workspace_id => k."workspaceId", created_by => $2, name => 'test', lookup => k.lookup,
       secret_hash => decode(k.hash, 'hex'), entity_id => k.label
     ) as id
     from jsonb_to_recordset($1) as k ("workspaceId" uuid, label text, hash text, lookup text)`,
    [JSON.stringify(keys), ownerId],
  );
  const lineages = new Map(made.map(({ hash, id }) => [hash, id]));
  const keyOf = ({ hash, label }: { hash: string; label: string | null }): Key => ({
    lineageId: lineages.get(hash) ?? "",
    hash,
    label,
  });
  const spenders = ids.map((workspaceId, at): Spender => {
    const [plain, labelled] = keys.slice(2 * at, 2 * at + 2);
    if (!plain || !labelled) throw new Error("a workspace lacks its keys");
    return { workspaceId, keys: [keyOf(plain), keyOf(labelled)] };
  });
  return { model, ownerId, spenders };
}

const zones = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Kiritimati", "Etc/GMT+12"];

/**
 * Gives each workspace a random set of limits, instead of those of its last history, whose runs are deleted. Every run
 * of that history has been settled.
 */
export async function drawLimits(db: Database, { world, random }: { world: SpendingWorld; random: Random }) {
  const ids = world.spenders.map(({ workspaceId }) => workspaceId);
  await db.query("delete from ai.runs where workspace_id = any ($1)", [ids]);
  await db.query("delete from ai.budgets where workspace_id = any ($1)", [ids]);
  await db.query("delete from ai.envelopes where workspace_id = any ($1)", [ids]);
  await db.query("delete from ai.workspace_policies where workspace_id = any ($1)", [ids]);
  await db.query(
    "delete from ai.rate_windows w using unnest($1::uuid[]) as i where w.subject_id = ai.model_window_id(i, $2)",
    [ids, world.model],
  );
  const budgets = world.spenders.flatMap(({ workspaceId, keys }) => {
    const subjects: [string, string | null, string | null][] = [
      ["workspace", workspaceId, null],
      ["member", world.ownerId, null],
      ["key", keys[0].lineageId, null],
      ["key", keys[1].lineageId, null],
      ["label", null, keyLabel],
    ];
    return subjects.flatMap(([scope, subject, label]) =>
      ["day", "week", "month", "total", "concurrent"]
        .filter((period) => random.chance(0.15) && (scope !== "label" || period !== "concurrent"))
        .map((period) => ({
          ...{ workspaceId, scope, subject, label, period, zone: random.oneOf(zones) },
          ...(period === "concurrent"
            ? { maxCalls: 1 + random.below(5) }
            : { limit: 5 + random.below(35), reservesExpected: random.chance(0.5) }),
        })),
    );
  });
  await db.query(
    `insert into ai.budgets
       (scope, subject_id, workspace_id, label, period, time_zone, limit_usd, max_calls, reserves_expected, starts_at, ends_at)
     select b.scope, coalesce(b.subject, ai.label_id(b.label)), b."workspaceId", b.label, b.period, b.zone, b."limit",
       b."maxCalls", coalesce(b."reservesExpected", false), w.starts_at, w.ends_at
     from jsonb_to_recordset($1) as b (
       scope text, subject uuid, "workspaceId" uuid, label text, period text, zone text, "limit" numeric, "maxCalls" bigint,
       "reservesExpected" boolean
     )
     cross join lateral ai.budget_window(b.period, b.zone, now()) as w`,
    [JSON.stringify(budgets)],
  );
  // Most workspaces have a history of calls that cost $2, and so reserve less for calls of up to $8.
  await db.query("delete from ai.output_histories where workspace_id = any ($1)", [ids]);
  await db.query(
    `insert into ai.output_histories (workspace_id, model_id, feature, outputs)
     select unnest($1::uuid[]), $2, 'chat', array_fill(2, array[30])`,
    [ids.filter(() => random.chance(0.8)), world.model],
  );
  const limited = world.spenders.filter(() => random.chance(0.15));
  await db.query(
    `insert into ai.workspace_policies (workspace_id, model_limits)
     select (l ->> 'id')::uuid, jsonb_build_object($2::text, jsonb_build_object('requests', l -> 'requests'))
     from jsonb_array_elements($1) as l`,
    [JSON.stringify(limited.map(({ workspaceId: id }) => ({ id, requests: 2 + random.below(6) }))), world.model],
  );
  // A person holds all calls of some keys.
  for (const { workspaceId, keys } of world.spenders.filter(() => random.chance(0.1))) {
    const envelope = { usd: String(10 + random.below(20)), calls: 3 + random.below(6) };
    await db.query("select ai.open_envelope($1, $2, '', $3, $4, $2, $4)", [
      ...[workspaceId, keys[0].lineageId, JSON.stringify(envelope), world.ownerId],
    ]);
  }
}

/**
 * Moves everything of the given workspaces back by some days, as if the time had passed since their last calls. Each
 * budget then has the window and the spending of that time, until the next call begins a new window.
 */
export async function passDays(db: Database, { workspaceIds, days }: { workspaceIds: string[]; days: number }) {
  const values = [workspaceIds, days];
  await db.query(
    "update ai.runs r set created_at = r.created_at - $2 * interval '1 day' where r.workspace_id = any ($1)",
    values,
  );
  await db.query(
    `with moved as (
       update ai.envelopes e set opened_at = e.opened_at - $2 * interval '1 day' where e.workspace_id = any ($1)
     )
     update ai.budgets b set starts_at = b.starts_at - $2 * interval '1 day', ends_at = b.ends_at - $2 * interval '1 day'
     where b.workspace_id = any ($1) and b.scope = 'envelope'`,
    values,
  );
  await db.query(
    `update ai.budgets b
     set starts_at = w.starts_at, ends_at = w.ends_at, spent_usd = (
       select coalesce(sum(r.cost_usd), 0)
       from ai.runs r
       where r.workspace_id = b.workspace_id and r.status <> 'running'
         and ai.budget_entry(b.scope, b.period) = any (r.budget_scopes)
         and ai.budget_subject(
           b.scope, r.workspace_id, r.key_lineage_id, r.app_id, r.actor_id, r.entity_id, r.envelope_id
         ) = b.subject_id
         and r.created_at >= w.starts_at and r.created_at < w.ends_at
     )
     from ai.budgets o
     cross join lateral ai.budget_window(o.period, o.time_zone, now() - $2 * interval '1 day') as w
     where o.workspace_id = any ($1) and o.period in ('day', 'week', 'month')
       and (b.scope, b.subject_id, b.workspace_id, b.period) = (o.scope, o.subject_id, o.workspace_id, o.period)`,
    values,
  );
}

/** Reads the runs and limits of all workspaces at one time. */
export async function readState(db: Database, { spenders, model }: SpendingWorld): Promise<State> {
  const microseconds = (time: string) => `(extract(epoch from ${time}) * 1000000)::float8`;
  const rows = (name: string, query: string) => `(select coalesce(json_agg(x), '[]') from (${query}) as x) as ${name}`;
  const { runs, budgets, rates } = await one<State>(db, {
    sql: `select
      ${rows(
        "runs",
        `select r.id, r.created_at::text as "createdAt", ${microseconds("r.created_at")} as begun,
           r.workspace_id as "workspaceId", coalesce(r.entity_id, '') as label, r.budget_scopes as entries,
           r.status = 'running' as "isOpen", r.swept as "isSwept", r.reserved_usd::float8 as reserved, r.cost_usd::float8 as cost,
           r.expected_usd::float8 as expected, coalesce(r.expected_scopes, '{}') as "expectedEntries",
           json_build_object(
             'workspace', r.workspace_id, 'member', r.actor_id, 'key', r.key_lineage_id, 'envelope', r.envelope_id,
             'label', case when r.entity_id is not null then ai.label_id(r.entity_id) end
           ) as subjects
         from ai.runs r where r.workspace_id = any ($1)`,
      )},
      ${rows(
        "budgets",
        `select b.scope, b.subject_id as subject, b.workspace_id as "workspaceId", b.period, b.limit_usd::float8 as "limit",
           b.spent_usd::float8 as spent, b.reserved_usd::float8 as reserved, b.max_calls as "maxCalls", b.calls,
           b.reserves_expected as "reservesExpected",
           ${microseconds("b.starts_at")}::text as start, ${microseconds("b.ends_at")}::text as "end",
           case when e.id is not null then json_build_object(
             'principal', e.principal_id, 'label', e.label, 'holdsAll', e.holds_all, 'hasEnded', b.ends_at <= now()
           ) end as envelope
         from ai.budgets b
         left join ai.envelopes e on b.scope = 'envelope' and e.id = b.subject_id
         where b.workspace_id = any ($1)`,
      )},
      ${rows(
        "rates",
        `select p.workspace_id as "workspaceId", w.requests, (p.model_limits -> $2 ->> 'requests')::integer as "limit"
         from ai.workspace_policies p
         join ai.rate_windows w on w.scope = 'model' and w.subject_id = ai.model_window_id(p.workspace_id, $2)
         where p.workspace_id = any ($1) and p.model_limits is not null`,
      )}`,
    values: [spenders.map(({ workspaceId }) => workspaceId), model],
  });
  // Infinity is text in JSON.
  return { runs, rates, budgets: budgets.map((row) => ({ ...row, start: Number(row.start), end: Number(row.end) })) };
}

/** Returns the accounts whose balance or reservation differs from their ledger and their runs. */
export function readWrongBooks(db: Database, { spenders }: SpendingWorld): Promise<object[]> {
  return db.query(
    `select a.workspace_id, a.balance, a.reserved, l.ledger, l.charged, r.open, r.billed
     from ai.credit_accounts a
     cross join lateral (
       select coalesce(sum(l.amount), 0) as ledger,
         coalesce(-sum(l.amount) filter (where l.run_id in (select r.id from ai.runs r where r.workspace_id = a.workspace_id)), 0) as charged
       from ai.credit_ledger l where l.account_id = a.id
     ) as l
     cross join lateral (
       select coalesce(sum(r.reserved_credits) filter (where r.status = 'running'), 0) as open, coalesce(sum(r.billed_credits), 0) as billed
       from ai.runs r where r.workspace_id = a.workspace_id
     ) as r
     where a.workspace_id = any ($1) and (a.balance <> l.ledger or l.charged <> r.billed or a.reserved <> r.open)`,
    [spenders.map(({ workspaceId }) => workspaceId)],
  );
}

/** Returns the argument of `ai.begin_runs` for a batch that may wait long on a busy machine. */
export function batchThatWaits(calls: readonly object[]): string {
  return JSON.stringify({ ...JSON.parse(batchOf(calls)), wait_ms: 20_000, lock_wait_ms: 15_000 });
}

/** Returns a call of a key whose maximum cost is a number of dollars. */
export function callFor(model: string, { key, usd, ...changes }: { key: Key; usd: number; [member: string]: unknown }) {
  return chatCall({ keyHash: key.hash, model }, { output_limit: usd, ...changes });
}

/** Removes what the spenders leave, because other tests read the runs and budgets of all workspaces. */
export async function removeSpending(db: Database, { spenders }: SpendingWorld): Promise<void> {
  const workspaceIds = spenders.map(({ workspaceId }) => workspaceId);
  for (const table of [
    "runs",
    "usage_daily",
    "usage_labels_daily",
    "usage_changes",
    "output_histories",
    "envelopes",
    "budget_alerts",
    "budgets",
  ]) {
    const remove = () => db.query(`delete from ai.${table} where workspace_id = any ($1)`, [workspaceIds]);
    // Other tests lock rows such as usage changes in another order, so that this may be the victim of a deadlock.
    await retryContended(remove, ["40P01"]);
  }
}
