import { CompiledQuery } from "kysely";
import pg from "pg";
import { type RequestContext, roleOf } from "./request-context.ts";

/** Settings of each role from `alter role … set`, which Postgres does not apply when a session switches to the role. */
export type RoleSettings = ReadonlyMap<string, ReadonlyMap<string, string>>;

/** Selects the role settings that any user may change, one row for each role and setting. */
export const roleSettingsQuery = CompiledQuery.raw(`
  select role.rolname as role, split_part(entry, '=', 1) as name, substr(entry, strpos(entry, '=') + 1) as value
  from pg_catalog.pg_roles role
  cross join lateral unnest(role.rolconfig) as entry
  join pg_catalog.pg_settings setting on setting.name = split_part(entry, '=', 1)
  where role.rolname in ('anon', 'authenticated', 'service_role')
    and setting.context = 'user' and setting.name not in ('role', 'search_path')`);

/** Groups the rows of {@link roleSettingsQuery} by role. */
export function readRoleSettings(rows: readonly unknown[]): RoleSettings {
  const settings = new Map<string, Map<string, string>>();
  for (const { role, name, value } of rows as { role: string; name: string; value: string }[]) {
    const ofRole = settings.get(role) ?? new Map<string, string>();
    settings.set(role, ofRole.set(name, value));
  }
  return settings;
}

/**
 * Creates the statement that prepares a transaction. It sets the role, claims, search path and limits, as well as the
 * request data that functions can read (PostgREST, "Transactions"). The settings last until the transaction ends.
 */
export function sessionSettings(
  context: RequestContext,
  { roleSettings, readOnly }: { roleSettings: RoleSettings; readOnly: boolean },
): CompiledQuery {
  const role = roleOf(context);
  const settings: [string, string][] = [
    ["search_path", [...new Set([context.schema, "public", "extensions"])].map(quoteIdentifier).join(", ")],
    ["request.jwt.claims", JSON.stringify({ ...context.claims, role })],
    ["request.method", context.method],
    ["request.path", context.path],
    ["request.headers", JSON.stringify(context.headers)],
    ["response.status", ""],
    ["response.headers", ""],
    ...(roleSettings.get(role) ?? []),
    ["role", role],
  ];
  if (readOnly) settings.push(["transaction_read_only", "on"]);
  // The statement has no parameters, because only then is it sent in the same message as BEGIN.
  const calls = settings.map((pair) => `set_config(${pair.map(pg.escapeLiteral).join(", ")}, true)`);
  return CompiledQuery.raw(`select ${calls.join(", ")}`);
}

function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
