import type pg from "pg";

/** The statements that Postgres has executed for the gateway since the last reset. */
export type Statements = {
  /** Statements that the gateway sent. */
  sent: number;
  /** Those, and the statements within the functions that they called. Requires `track = all`. */
  all: number;
  /** Time that Postgres took for the statements that the gateway sent. */
  sentMs: number;
};

/** Sets whether `pg_stat_statements` also counts the statements within functions, which slows Postgres down. */
export async function trackFunctions(superuser: pg.Client, tracks: boolean): Promise<void> {
  await superuser.query(
    tracks ? "alter system set pg_stat_statements.track = 'all'" : "alter system reset pg_stat_statements.track",
  );
  await superuser.query("select pg_reload_conf()");
}

export async function resetStatements(superuser: pg.Client): Promise<void> {
  await superuser.query("select extensions.pg_stat_statements_reset()");
}

/** Reads the statements, without those that other roles sent. */
export async function readStatements(superuser: pg.Client): Promise<Statements> {
  const { rows } = await superuser.query<Statements>(
    `select
       coalesce(sum(s.calls) filter (where s.toplevel), 0)::float8 as sent,
       coalesce(sum(s.calls), 0)::float8 as all,
       coalesce(sum(s.total_exec_time) filter (where s.toplevel), 0) as "sentMs"
     from extensions.pg_stat_statements s join pg_roles r on r.oid = s.userid
     where not s.toplevel or r.rolname = 'gateway'`,
  );
  const [row] = rows;
  if (!row) throw new Error("Postgres has no statements.");
  return row;
}
