import pg from "pg";

/** The schemas whose data a backup contains. */
export const schemas = ["auth", "private", "public", "ai"] as const;

/** Supabase Auth's record of its own migrations, which belongs to the target's version of Auth. */
export const authMigrations = "auth.schema_migrations";

/** The tables in which migrations and scheduled tasks insert rows before there is any data. A restore replaces them. */
export const initialised: readonly string[] = [
  "private.attempt_secrets",
  "ai.sweep_progress",
  "ai.totals",
  "ai.usage_progress",
];

/** Returns the tables of a backup. Partitions count as their parents. */
export async function listTables(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = any ($1) and c.relkind in ('r', 'p') and not c.relispartition
       and c.oid is distinct from to_regclass($2)
     order by n.nspname, c.relname`,
    [schemas, authMigrations],
  );
  return rows.map(({ name }) => name);
}

/**
 * Returns the relations that no migration creates, and so no restore. Those of Supabase Auth are not among them.
 * @param known the tables of the migrations
 */
export async function listUnknownRelations(client: pg.Client, known: ReadonlySet<string>): Promise<string[]> {
  const { rows } = await client.query<{ name: string; table: string | null }>(
    `select format('%I.%I', n.nspname, c.relname) as name,
       case
         when c.relkind <> 'S' then format('%I.%I', n.nspname, c.relname)
         when o.oid is not null then format('%I.%I', m.nspname, o.relname)
       end as table
     from pg_class c
       join pg_namespace n on n.oid = c.relnamespace
       left join pg_depend d on c.relkind = 'S' and d.classid = 'pg_class'::regclass and d.objid = c.oid
         and d.refclassid = 'pg_class'::regclass and d.deptype in ('a', 'i')
       left join pg_class o on o.oid = d.refobjid left join pg_namespace m on m.oid = o.relnamespace
     where n.nspname = any ($1) and n.nspname <> 'auth' and c.relkind in ('r', 'p', 'm', 'S') and not c.relispartition
     order by n.nspname, c.relname`,
    [schemas],
  );
  return rows.filter(({ table }) => table === null || !known.has(table)).map(({ name }) => name);
}

/** A partition, which a restore creates before it loads rows, so that they do not end up in the default partition. */
export type Partition = { name: string; parent: string; bounds: string; options: string | null };

export async function listPartitions(client: pg.Client): Promise<Partition[]> {
  const { rows } = await client.query<Partition>(
    `select format('%I.%I', n.nspname, c.relname) as name, format('%I.%I', m.nspname, p.relname) as parent,
       pg_get_expr(c.relpartbound, c.oid) as bounds, array_to_string(c.reloptions, ', ') as options
     from pg_class c
       join pg_namespace n on n.oid = c.relnamespace
       join pg_inherits i on i.inhrelid = c.oid
       join pg_class p on p.oid = i.inhparent join pg_namespace m on m.oid = p.relnamespace
     where n.nspname = any ($1) and c.relispartition and c.relkind = 'r'
     order by n.nspname, c.relname`,
    [schemas],
  );
  return rows;
}

/** Figures that are above 0 only if the books are wrong. */
const faults = {
  balance: "accounts whose balance is not the sum of their ledger",
  reserved: "accounts whose reserved credits are not those of their open runs",
  billed: "accounts whose ledger is not what their runs bill",
};

/** One row a source. Each column is a figure, whose name says what it counts. */
const books = [
  `select count(*) as "accounts", sum(balance) as "balance", sum(reserved) as "reserved credits"
   from ai.credit_accounts`,
  `select count(*) as "ledger entries", sum(amount) as "ledger", -sum(amount) filter (where run_id is not null) as "ledger of runs"
   from ai.credit_ledger`,
  `select count(*) as "runs", count(*) filter (where status = 'running') as "open runs", sum(cost_usd) as "USD of runs",
     sum(billed_credits) as "billed credits", sum(unmetered_credits) as "unmetered credits",
     sum(input_tokens) as "input tokens", sum(output_tokens) as "output tokens"
   from ai.runs`,
  `select sum(requests) as "summed runs", sum(cost_usd) as "USD of summed runs", sum(billed_credits) as "credits of summed runs"
   from (
     select requests, cost_usd, billed_credits from ai.usage_daily
     union all select requests, cost_usd, billed_credits from ai.usage_changes
   ) as sums`,
  `select count(*) as "imported costs", sum(amount_usd) as "USD of imported costs" from ai.external_provider_costs`,
  `select count(*) as "invoices", sum(amount_usd) as "USD of invoices" from ai.external_provider_invoices`,
  `select count(*) filter (where a.balance <> coalesce(l.amount, 0)) as "${faults.balance}",
     count(*) filter (where a.reserved <> coalesce(r.reserved, 0)) as "${faults.reserved}",
     count(*) filter (where coalesce(l.charged, 0) <> coalesce(r.billed, 0)) as "${faults.billed}"
   from ai.credit_accounts a
   left join (
     select account_id, sum(amount) as amount, -sum(amount) filter (where run_id is not null) as charged
     from ai.credit_ledger group by account_id
   ) as l on l.account_id = a.id
   left join (
     select account_id, sum(billed_credits) as billed, sum(reserved_credits) filter (where status = 'running') as reserved
     from ai.runs group by account_id
   ) as r on r.account_id = a.id`,
];

/** Returns a query whose rows are all figures: the rows of each table, and the audit of the books with exact amounts. */
export function figuresSql(tables: readonly string[]): string {
  const counts = tables.map((table) => `select ${pg.escapeLiteral(`rows of ${table}`)}, count(*)::text from ${table}`);
  const audits = books.map((sql) => `select to_jsonb(source) as figures from (${sql}) as source`);
  return `
    select 'books: ' || f.key as figure, coalesce(f.value, '0') as value
    from (${audits.join("\nunion all ")}) as audit, jsonb_each_text(audit.figures) as f
    ${counts.map((sql) => `union all ${sql}`).join("\n")}`;
}

export async function readFigures(client: pg.Client, tables: readonly string[]): Promise<Record<string, string>> {
  const { rows } = await client.query<{ figure: string; value: string }>(figuresSql(tables));
  return Object.fromEntries(rows.map(({ figure, value }) => [figure, value]));
}

/** Returns a line for each way in which the books are wrong. */
export function findBookFaults(figures: Readonly<Record<string, string>>): string[] {
  return Object.values(faults).flatMap((name) => {
    const value = figures[`books: ${name}`] ?? "0";
    return value === "0" ? [] : [`${value} ${name}`];
  });
}
