import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { withDatabase } from "@gatehousehq/local-stack/database";
import type { PreviousRelease } from "./previous-release.ts";

export type Size = { runs: number; days: number; accounts: number };

/** The workspace that the previous release's own load program filled. */
export type Load = { workspaceId: string; key: string };

/** Fills the database by the previous release's code, and with accounts and runs of the next month. */
export async function fillDatabase(
  { root }: PreviousRelease,
  { dbUrl, file, size }: { dbUrl: string; file: string; size: Size },
): Promise<Load> {
  const args = ["scripts/load/seed.ts", "--runs", String(size.runs), "--days", String(size.days)];
  const { stdout } = await promisify(execFile)(process.execPath, args, {
    cwd: root,
    env: { ...process.env, GATEHOUSE_STACK: file },
  });
  const [, workspaceId, key] = /Workspace ([0-9a-f-]{36}), .*key (\S+)/.exec(stdout) ?? [];
  if (!workspaceId || !key) throw new Error(stdout);
  await withDatabase(dbUrl, async (client) => {
    await client.query(
      `with account as (
         insert into auth.users (
           instance_id, id, aud, role, email, encrypted_password, email_confirmed_at, confirmation_token, recovery_token,
           email_change_token_new, email_change, raw_app_meta_data, raw_user_meta_data, created_at, updated_at
         )
         select '00000000-0000-0000-0000-000000000000', gen_random_uuid(), 'authenticated', 'authenticated',
           format('filled-%s@integration.gatehouse.test', n), '', now(), '', '', '', '',
           '{"provider": "email", "providers": ["email"]}', '{"email_verified": true}', now(), now()
         from generate_series(1, $1) as n
         returning id, email
       )
       insert into auth.identities (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
       select id, id, jsonb_build_object('sub', id, 'email', email, 'email_verified', false, 'phone_verified', false),
         'email', now(), now(), now()
       from account`,
      [size.accounts],
    );
    // More than the 8 MB below which the upgrade builds indexes itself.
    await client.query(
      `insert into public.security_events (user_id, kind, method, ip, user_agent, created_at)
       select u.id, 'sign_in', 'password', '192.0.2.7', repeat('Mozilla/5.0 ', 12), now() - interval '1 day'
       from (select id from auth.users where email like 'filled-%' limit 100) as u, generate_series(1, 600)`,
    );
    // As a server writes whose clock is ahead at the end of a month.
    await client.query(
      `insert into ai.runs
       select (jsonb_populate_record(null::ai.runs, to_jsonb(r) || jsonb_build_object(
         'id', ai.run_id(next.month), 'created_at', next.month, 'settled_at', next.month, 'billed_credits', 0
       ))).*
       from (select * from ai.runs where workspace_id = $1 limit 100) as r,
         (select date_trunc('month', now(), 'UTC') + interval '1 month' as month) as next`,
      [workspaceId],
    );
    await client.query("analyze");
  });
  return { workspaceId, key };
}

/** Builds the indexes as an operator does who pastes the changelog's statements into psql. */
export async function buildIndexes(dbUrl: string, previous: PreviousRelease): Promise<void> {
  await withDatabase(dbUrl, async (client) => {
    for (const { sql, executesRows } of await readIndexStatements(previous)) {
      const { rows } = await client.query<string[]>({ text: sql, rowMode: "array" });
      for (const [statement = ""] of executesRows ? rows : []) await client.query(statement);
    }
  });
}

/** Reads the statements under "Indexes to build first" since a release. psql executes the rows of `\gexec`. */
export async function readIndexStatements({
  version,
}: PreviousRelease): Promise<{ sql: string; executesRows: boolean }[]> {
  const [newer = ""] = (await readFile("CHANGELOG.md", "utf8")).split(`\n## [${version}] - `);
  const [, block = ""] = /Indexes to build first.*?```sql\n(.*?)```/s.exec(newer) ?? [];
  return [...block.matchAll(/([^;]+?)(;|\\gexec)\s*/g)].map(([, sql = "", end]) => ({
    sql,
    executesRows: end !== ";",
  }));
}

export type LoadBooks = Record<string, string>;

/** Reads what is stored and reported about the filled workspace, whose runs nothing changes. */
export async function readLoadBooks(ai: string, { dbUrl, load }: { dbUrl: string; load: Load }): Promise<LoadBooks> {
  const response = await fetch(`${ai}/v1/usage`, {
    headers: { authorization: `Bearer ${load.key}`, "x-platform-workspace-id": load.workspaceId },
  });
  if (!response.ok) throw new Error(`GET /v1/usage answered ${response.status} ${await response.text()}`);
  const { rows: reported } = (await response.json()) as { rows: { requests: number }[] };
  const stored = await withDatabase(dbUrl, async (client) => {
    const { rows } = await client.query<LoadBooks>(
      `select count(*)::text as runs, sum(r.cost_usd)::text as cost_usd, sum(r.billed_credits)::text as billed,
         sum(r.unmetered_credits)::text as unmetered, sum(r.input_tokens)::text as input,
         string_agg(distinct r.tableoid::regclass::text, ', ') as partitions,
         (select a.balance::text from ai.credit_accounts a where a.workspace_id = $1) as balance,
         (select sum(l.amount)::text from ai.credit_ledger l
          join ai.credit_accounts a on a.id = l.account_id where a.workspace_id = $1) as ledger
       from ai.runs r where r.workspace_id = $1`,
      [load.workspaceId],
    );
    return rows[0] ?? {};
  });
  return { ...stored, reported: JSON.stringify(reported.map(({ requests }) => requests).sort((a, b) => a - b)) };
}

/** Returns one line for each figure that differs. */
export function compareBooks(before: LoadBooks, after: LoadBooks): string[] {
  return Object.keys(before)
    .filter((name) => before[name] !== after[name])
    .map((name) => `${name}: ${before[name]}, then ${after[name]}`);
}
