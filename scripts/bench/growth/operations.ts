import type { GrowthTenant } from "./data.ts";

/**
 * How much slower an operation may get when the data grows a hundredfold. `maxMs` is for what reads a bounded number of
 * sums. `linear` is for what returns as many rows as it reads.
 */
export type Bound = "constant" | "logarithmic" | { maxMs: number } | { linear: string };

/** A database read, as made by a page or the API. */
export type Operation = { what: string; sql: string; values: unknown[]; bound: Bound };

const hour = 3_600_000;
const ago = (hours: number) => new Date(Date.now() - hours * hour).toISOString();
/** Sorts at most 10,000 runs, and falls back to the order of an index if the range has more. */
const sortedRuns = { maxMs: 250 };
/** When the tenant's newest 10,000 runs began, or null if it has fewer. */
const newest10000 = `(
  select r.created_at from ai.runs r where r.workspace_id = $2 order by r.created_at desc offset 9999 limit 1
)`;
const absent = "00000000-0000-4000-8000-000000000000";

/** Reads the sums of each day, whose number is bounded, and the runs of the last minutes. */
const sums = { maxMs: 100 };
/** Uses the ranges of the studio's usage overview: whole days up to today, and the same number of days before. */
const overviewSql = `
  select ai.read_overview(
    $1, $2, e.until - $3::integer * interval '24 hours', e.until, e.until - 2 * $3::integer * interval '24 hours',
    e.until - $3::integer * interval '24 hours', $4, case when $3::integer > 92 then 7 else 1 end, 200
  )
  from (select date_trunc('day', now(), 'UTC') + interval '24 hours' as until) e`;

/** Returns the reports that a person or client of a workspace waits for. */
export function reports({ workspaceId, ownerId }: Pick<GrowthTenant, "workspaceId" | "ownerId">, keyHash: string) {
  const member = [ownerId, workspaceId];
  const call = JSON.stringify({ credential: { source: "key", hash: keyHash }, workspace: workspaceId });
  const overview = (by: string) => [`overview by ${by}`, overviewSql, [...member, 30, by]] as const;
  return (
    [
      overview("day"),
      overview("model"),
      overview("member"),
      overview("label"),
      ["usage: a page", "select ai.read_usage($1, $2)", member],
      ["usage by label: a page", "select ai.read_usage($1, $2, group_by => '{label}')", member],
      ["credits: a page", "select ai.read_credits($1, $2)", member],
      ["costs by provider", "select ai.compare_costs($1, $2, $3, $4)", [...member, ago(720), ago(0)]],
      ["keys: a page", "select ai.list_keys($1, $2, nested => true)", member],
      ["budgets: a page", "select ai.read_budgets($1, $2, null, 50, '{workspace,app,key,member,label}', true)", member],
      ["runs: newest", "select ai.list_runs($1, $2, '{}', null, 51, 10000)", member],
      ["GET /v1/key", "select ai.describe_credential($1)", [call]],
      ["GET /v1/usage", "select ai.report_usage($1)", [call]],
      ["console: usage of providers", "select private.list_provider_usage(current_date - 30, current_date)", []],
    ] as const
  ).map(([what, sql, values]): Operation => ({ what, sql, values: [...values], bound: "constant" }));
}

/** Returns the operations that are measured at each size. */
export function operations(tenant: GrowthTenant): Operation[] {
  const { workspaceId, ownerId } = tenant;
  const member = [ownerId, workspaceId];
  const runs = (what: string, filter: object, bound: Bound = "constant"): Operation => ({
    what: `runs: ${what}`,
    sql: "select ai.list_runs($1, $2, $3, null, 51, 10000)",
    values: [...member, filter],
    bound,
  });
  const sorted = (sort: string): Operation => ({
    what: `runs: the newest 10,000 by ${sort}`,
    sql: `select ai.list_runs($1, $2, jsonb_build_object('from', ${newest10000}), null, 51, 10000, $3)`,
    values: [...member, sort],
    bound: sortedRuns,
  });
  const refused = (what: string, filter: object): Operation => ({
    what: `refused calls: ${what}`,
    sql: "select ai.list_refused_calls($1, $2, $3, null, 51, 10000)",
    values: [...member, filter],
    bound: sums,
  });
  const overview = (by: string): Operation => ({
    what: `overview by ${by}`,
    sql: overviewSql,
    values: [...member, 30, by],
    bound: sums,
  });
  const window = "reads the runs of the window, up to 10,000";
  const shared = { linear: "intersects lists of trigrams that all names here share" };
  const sessions = { linear: "reads all sessions of the account" };
  return [
    runs("newest", {}),
    runs("a day ago", { from: ago(48), to: ago(24) }),
    runs("two days of six months ago", { from: ago(4_320), to: ago(4_272) }),
    runs("unknown request id", { requestId: absent }),
    runs("by model", { model: "demo-chat" }),
    runs("idle key", { keyId: tenant.idleKeyId }, { linear: window }),
    runs("another app", { appId: tenant.idleAppId }, { linear: window }),
    runs("absent model", { model: "absent" }, { linear: window }),
    runs("absent feature", { feature: "absent" }, { linear: window }),
    runs("own provider", { provider: "demo" }),
    runs("own member", { memberId: ownerId }, { linear: window }),
    runs("absent entity label", { entityId: "absent" }, { linear: window }),
    runs("failed of 30 days", { status: "failed", from: ago(720), to: ago(0) }, { linear: window }),
    runs("running", { status: "running" }, { linear: window }),
    ...["cost", "tokens", "latency"].map(sorted),
    {
      what: "runs: all by cost",
      sql: "select ai.list_runs($1, $2, '{}', null, 51, 10000, 'cost')",
      values: member,
      bound: sortedRuns,
    },
    {
      what: "runs: the neighbours of a run among the newest 10,000 by cost",
      sql: `
        select ai.read_run_page($1, $2, r.id, jsonb_build_object('from', ${newest10000}), 'cost', 10000)
        from (select id from ai.runs where workspace_id = $2 order by created_at desc limit 1) r`,
      values: member,
      bound: sortedRuns,
    },
    refused("newest", {}),
    refused("absent model", { model: "absent" }),
    refused("unknown request id", { requestId: absent }),
    {
      what: "runs: a page of half a year ago",
      sql: "select ai.list_runs($1, $2, '{}', $3, 51, 10000)",
      values: [...member, { createdAt: ago(4_380), id: absent }],
      bound: "constant",
    },
    overview("day"),
    overview("model"),
    overview("member"),
    overview("label"),
    {
      what: "overview of a year by member",
      sql: overviewSql,
      values: [...member, 365, "member"],
      bound: sums,
    },
    {
      what: "usage by day, model, feature and mode: a page",
      sql: "select ai.read_usage($1, $2)",
      values: member,
      bound: sums,
    },
    {
      what: "usage by day and member: a page",
      sql: "select ai.read_usage($1, $2, group_by => '{day,member}')",
      values: member,
      bound: sums,
    },
    {
      what: "usage by label: a page",
      sql: "select ai.read_usage($1, $2, group_by => '{label}')",
      values: member,
      bound: sums,
    },
    {
      what: "credits: a page",
      sql: "select ai.read_credits($1, $2)",
      values: member,
      bound: sums,
    },
    {
      what: "credits: a page of six months ago",
      sql: "select ai.read_credits($1, $2, $3, $4)",
      values: [...member, ago(4_320), ago(3_600)],
      bound: sums,
    },
    {
      what: "costs by provider",
      sql: "select ai.compare_costs($1, $2, $3, $4)",
      values: [...member, ago(720), ago(0)],
      bound: sums,
    },
    {
      what: "credits: 5,000 records of a file",
      sql: "select ai.read_credits($1, $2, page_size => 5001, with_totals => false)",
      values: member,
      bound: { linear: "reads 5,000 records, where there are so many" },
    },
    {
      what: "imported costs: a page",
      sql: "select ai.list_provider_costs($1, $2, with_totals => false)",
      values: member,
      bound: "constant",
    },
    {
      what: "imported costs: absent provider",
      sql: 'select ai.list_provider_costs($1, $2, filter => \'{"provider": "absent"}\', with_totals => false)',
      values: member,
      bound: { linear: "reads the records of the window" },
    },
    {
      what: "export of an account: 500 runs",
      sql: "select count(*) from private.export_account_runs($1, $2)",
      values: [ownerId, { createdAt: ago(4_380), id: absent }],
      bound: "constant",
    },
    {
      what: "keys: a page",
      sql: "select ai.list_keys($1, $2, nested => true)",
      values: member,
      bound: sums,
    },
    {
      what: "sessions of an account with many: a page",
      sql: "select count(*) from private.account_sessions($1, page_size => 51)",
      values: [ownerId],
      bound: sessions,
    },
    {
      what: "console: one account",
      sql: "select private.account_overview($1)",
      values: [ownerId],
      bound: sessions,
    },
    {
      what: "console: timeline of an account",
      sql: "select private.account_timeline($1)",
      values: [ownerId],
      bound: "constant",
    },
    {
      what: "console: account by email",
      sql: "select private.search_accounts('person-77@growth.test')",
      values: [],
      bound: "constant",
    },
    {
      what: "console: part of an email of one account",
      sql: "select private.search_accounts('rson-1777@grow')",
      values: [],
      bound: shared,
    },
    {
      what: "console: part of an email of all accounts",
      sql: "select private.search_accounts('growth')",
      values: [],
      bound: "constant",
    },
    {
      what: "console: absent part",
      sql: "select private.search_accounts('qqzzqq')",
      values: [],
      bound: "logarithmic",
    },
    {
      what: "console: workspace by part of its name",
      sql: "select private.search_workspaces('son 1777')",
      values: [],
      bound: shared,
    },
    {
      what: "console: workspaces of a member",
      sql: "select private.search_workspaces('person-77@growth.test')",
      values: [],
      bound: "constant",
    },
    {
      what: "console: newest invitations",
      sql: "select private.list_account_invitations()",
      values: [],
      bound: "constant",
    },
    {
      what: "console: spending by workspace",
      sql: `select private.list_spending('workspace', current_date - 30, current_date, 'cost', false, null, 51)`,
      values: [],
      bound: { linear: "sums the workspaces with runs in the month" },
    },
    {
      what: "console: plans",
      sql: "select private.list_plans()",
      values: [],
      bound: { linear: "counts the workspaces of each plan" },
    },
    {
      what: "console: service accounts",
      sql: "select private.list_service_accounts(null)",
      values: [],
      bound: "constant",
    },
    {
      what: "console: run by request id",
      sql: "select private.find_runs($1)",
      values: [absent],
      bound: "constant",
    },
    {
      what: "console: overview",
      sql: "select private.read_overview('{openai}')",
      values: [],
      bound: sums,
    },
    {
      what: "console: counts of the menu",
      sql: "select private.read_attention('{openai}', in_menu => true)",
      values: [],
      bound: sums,
    },
    {
      what: "metrics of the deployment",
      sql: "select private.measure_deployment()",
      values: [],
      bound: "constant",
    },
  ];
}
