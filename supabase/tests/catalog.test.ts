import { readFile } from "node:fs/promises";
import { describe, expect } from "vitest";
import { catalogRules, grantsSql } from "./catalog.ts";
import { type Database, one, test } from "./database.ts";

/** Accepted violations with their reasons, by rule name. The migration of the foreign key states its reason. */
const exceptions: Record<string, readonly string[]> = {
  "a foreign key states its on delete action": ["public.workspace_members (workspace_id, role_id)"],
  "a table with credentials of an account is in account_credentials": [
    // A visit to a provider, which ends in a session or an identity.
    "auth.flow_state",
    // Works only with the authenticator.
    "auth.mfa_challenges",
    // Works only for somebody who reads the account's mail.
    "auth.one_time_tokens",
    // A part of its session.
    "auth.refresh_tokens",
    // These three hold a session, which is listed.
    "private.account_additions",
    "private.account_devices",
    "private.account_vault_entries",
    // An app's own secret.
    "private.app_secrets",
    // Gives nothing to the account that signs in with it.
    "private.authorization_requests",
    // Works only in the session that began it.
    "private.oauth_attempts",
    // These two are parts of a service account, which is listed.
    "private.service_account_credentials",
    "private.service_tokens",
    // Codes that no longer work.
    "private.used_mfa_codes",
    // Gives a membership to the account that accepts it.
    "public.workspace_invitations",
  ],
};

/**
 * Functions with `security definer` that a signed-in user can call. All except session_state and device_session_state
 * check MFA in their body. These two also answer for sessions that don't satisfy the MFA rule yet. device_session_state
 * also takes a browser's device secret, and returns the browser's accounts only if the secret is correct.
 */
const callableDefiners: readonly string[] = [
  "public.accept_workspace_invitation(text)",
  "public.create_workspace(text)",
  "public.delete_workspace(uuid)",
  "public.device_session_state(uuid, text)",
  "public.list_member_emails(uuid)",
  "public.read_credit_notice(uuid)",
  "public.remove_workspace_member(uuid, uuid, uuid[])",
  "public.session_state()",
  "public.transfer_workspace_ownership(uuid, uuid)",
  "public.uses_cost_book(uuid)",
  "public.workspace_invitation(text)",
];

async function offencesOf(db: Database, sql: string): Promise<string[]> {
  const rows = await db.query<{ offence: string }>(sql);
  return rows.map((row) => row.offence).sort();
}

async function grantLines(db: Database): Promise<string[]> {
  return (await db.query<{ line: string }>(grantsSql)).map((row) => row.line).sort();
}

const roles = "public, anon, authenticated, gateway, supabase_auth_admin";

/** Takes every privilege from users, the gateway and the public, then runs grants.sql. @returns what they may then do */
async function listedGrants(db: Database): Promise<string[]> {
  for (const schema of ["public", "private", "ai"]) {
    for (const kind of ["tables", "sequences", "functions"]) {
      await db.query(`revoke all on all ${kind} in schema ${schema} from ${roles}`);
    }
    if (schema !== "public") await db.query(`revoke all on schema ${schema} from ${roles}`);
  }
  await db.query(await readFile("supabase/schemas/grants.sql", "utf8"));
  return grantLines(db);
}

describe("rules for the schemas public, private and ai", () => {
  test.for(catalogRules)("the schemas follow the rule: $name", async ({ name, sql }, { db }) => {
    expect(await offencesOf(db, sql)).toEqual(exceptions[name] ?? []);
  });

  test.for(catalogRules)("detects a violation of the rule: $name", async ({ sql, offend, expected }, { db }) => {
    await db.query(offend);
    expect(await offencesOf(db, sql)).toContain(expected);
  });
});

describe("grants to users, the gateway and the public", () => {
  test("users, the gateway and the public have exactly the grants of grants.sql", async ({ db }) => {
    const found = await grantLines(db);
    expect(found.length).toBeGreaterThan(50);
    expect(found).toEqual(await listedGrants(db));
  });

  test("a new table, sequence or function has no grants by default", async ({ db }) => {
    const before = await grantLines(db);
    for (const schema of ["public", "private", "ai"])
      await db.query(`
        create table ${schema}.tomorrow (id bigint generated always as identity);
        create sequence ${schema}.tomorrow_numbers;
        create function ${schema}.tomorrow_answer() returns int language sql stable as 'select 42'`);
    expect(await grantLines(db)).toEqual(before);
  });

  test("detects grants that are too wide", async ({ db }) => {
    await db.query(`grant select on ai.keys to anon; grant update (kind) on public.security_events to authenticated;
      grant execute on function private.uuid_or_null(text) to public; grant usage on schema private to authenticated`);
    const found = await grantLines(db);
    const listed = await listedGrants(db);
    expect(found.filter((line) => !listed.includes(line))).toEqual([
      "anon: select on ai.keys",
      "authenticated: update (kind) on public.security_events",
      "authenticated: usage on schema private",
      "everyone: execute on private.uuid_or_null(text)",
    ]);
  });

  test("a signed-in user can call only the listed security definers", async ({ db }) => {
    const rows = await db.query<{ name: string }>(`
      select format('%s.%s(%s)', n.nspname, p.proname, oidvectortypes(p.proargtypes)) as name
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      where p.prosecdef
        and has_schema_privilege('authenticated', n.oid, 'usage')
        and has_function_privilege('authenticated', p.oid, 'execute')`);
    expect(rows.map((row) => row.name).sort()).toEqual([...callableDefiners].sort());
  });
});

describe("database roles", () => {
  test("the gateway role has no attributes or memberships, and owns nothing", async ({ db }) => {
    const row = await one(db, {
      sql: `select
              rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication, rolinherit, rolcanlogin,
              (select count(*)::int from pg_auth_members m where m.member = r.oid) as memberships,
              (select count(*)::int from pg_shdepend d where d.refobjid = r.oid and d.deptype = 'o') as owned
            from pg_roles r where rolname = 'gateway'`,
    });
    expect(row).toEqual({
      rolsuper: false,
      rolbypassrls: false,
      rolcreaterole: false,
      rolcreatedb: false,
      rolreplication: false,
      rolinherit: false,
      rolcanlogin: true,
      memberships: 0,
      owned: 0,
    });
  });

  test("only service_role, among the API's roles, bypasses row-level security", async ({ db }) => {
    const rows = await db.query(
      "select rolname from pg_roles where rolbypassrls and rolname in ('anon', 'authenticated', 'service_role', 'authenticator')",
    );
    expect(rows).toEqual([{ rolname: "service_role" }]);
  });
});

describe("required_mfa_enforcement_version", () => {
  const version = async (db: Database) =>
    (await one<{ version: number }>(db, { sql: "select public.required_mfa_enforcement_version() as version" }))
      .version;

  test("required_mfa_enforcement_version is 1 after the migrations", async ({ db }) => {
    expect(await version(db)).toBe(1);
    expect(await db.asRole("service_role", () => version(db))).toBe(1);
  });

  test.for([
    ["a table lacks the policy", "drop policy account_required_mfa on public.profiles"],
    ["a table lacks row-level security", "alter table private.login_challenges disable row level security"],
    ["a new table lacks protection", "create table public.tomorrow (id int)"],
    ["the trigger is missing", "drop function private.preserve_required_mfa_policy() cascade"],
    [
      "users cannot run the probe",
      "revoke execute on function private.account_required_mfa_satisfied() from authenticated",
    ],
    ["the probe is volatile", "alter function private.account_required_mfa_satisfied() volatile"],
    ["the probe runs as its caller", "alter function private.account_required_mfa_satisfied() security invoker"],
    ["everyone can run the probe", "grant execute on function private.account_required_mfa_satisfied() to public"],
  ] as const)("required_mfa_enforcement_version is 0 if %s", async ([, sql], { db }) => {
    await db.query(sql);
    expect(await version(db)).toBe(0);
  });
});
