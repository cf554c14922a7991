import { query } from "../test/people.ts";
import { madeUpDomain } from "./values.ts";

/** A table whose rows must not be changed by requests without a valid credential. */
interface Guarded {
  /** The guarded rows, aliased as `t`. Accounts that sign up during the campaign are excluded. */
  from: string;
  /** Columns that change by themselves: on a sign-in, on use, or over time. */
  moving?: readonly string[];
  /** An expression to compare instead of all columns of a row. */
  row?: string;
}

const oldAccount = `email not like '%@${madeUpDomain}'`;
const whole = (table: string, moving: readonly string[] = []): [string, Guarded] => [
  table,
  { from: `${table} t`, moving },
];

const guarded: Record<string, Guarded> = {
  "auth.users": { from: `auth.users t where ${oldAccount}`, moving: ["last_sign_in_at", "updated_at"] },
  "auth.sessions": {
    from: `auth.sessions t join auth.users u on u.id = t.user_id where u.${oldAccount}`,
    moving: ["updated_at", "refreshed_at"],
  },
  "auth.mfa_factors": { from: "auth.mfa_factors t", moving: ["updated_at", "last_challenged_at"] },
  "public.workspaces": {
    from: `public.workspaces t join auth.users u on u.id = t.created_by where u.${oldAccount}`,
  },
  "public.workspace_members": {
    from: `public.workspace_members t join auth.users u on u.id = t.user_id where u.${oldAccount}`,
  },
  // The sweeper may settle runs that were still open at the start. Only the ids of these runs are compared.
  "ai.runs": {
    from: "ai.runs t",
    row: `case when t.settled_at < $1::timestamptz then to_jsonb(t)::text else t.id::text end`,
  },
  ...Object.fromEntries([
    whole("public.workspace_invitations"),
    whole("private.apps"),
    whole("private.service_accounts", ["last_used_at", "last_used_ip"]),
    whole("private.service_account_credentials", ["last_used_at"]),
    whole("private.app_secrets"),
    whole("private.app_sessions"),
    whole("private.cross_app_tokens"),
    whole("private.login_challenges"),
    whole("private.recovery_overrides"),
    whole("private.infrastructure_admins"),
    whole("private.finance_people"),
    whole("ai.keys", ["last_used_at"]),
    whole("ai.app_tokens"),
    whole("ai.credit_ledger"),
    whole("ai.budgets"),
    whole("ai.workspace_policies"),
    whole("ai.external_provider_costs"),
    whole("ai.external_provider_invoices"),
    whole("ai.cost_imports"),
    whole("ai.invoice_documents", ["content"]),
  ]),
};

/** Returns the database's current time. */
export async function readMoment(): Promise<string> {
  const [row] = await query<{ now: string }>("select now()::text as now", []);
  if (!row) throw new Error("no moment");
  return row.now;
}

/**
 * Returns a digest of every guarded table's rows, independent of their order.
 * @param since the time that readMoment returned before the first digest. Pass the same time for all digests that are
 * compared.
 */
export async function digestTables(since: string): Promise<Record<string, string>> {
  const digests = Object.values(guarded).map(({ from, moving = [], row }, index) => {
    const columns = `array[${moving.map((column) => `'${column}'`).join(", ")}]::text[]`;
    const text = row ?? `(to_jsonb(t) - ${columns})::text`;
    return `(select count(*) || ' ' || md5(coalesce(string_agg(r.text, E'\\n' order by r.text), ''))
      from (select ${text} as text from ${from}) as r) as "${index}"`;
  });
  const statement = `select $1::timestamptz as since, ${digests.join(", ")}`;
  const [row] = await query<Record<string, string>>(statement, [since]);
  return Object.fromEntries(Object.keys(guarded).map((name, index) => [name, row?.[index] ?? ""]));
}

/** Returns the tables whose digests differ, each with its number of rows before and after. */
export function changesOf(before: Record<string, string>, after: Record<string, string>): string[] {
  const rows = (digest = "") => digest.split(" ")[0];
  return Object.keys(before)
    .filter((table) => before[table] !== after[table])
    .map((table) => `${table} (${rows(before[table])} rows, then ${rows(after[table])})`);
}
