import { describe, expect } from "vitest";
import { createActor } from "../actors.ts";
import { createUser, type Database, one, test } from "../database.ts";
import { createMachine } from "../machines/fixtures.ts";
import { createAdmin } from "./fixtures.ts";

const setRole = (db: Database, values: [email: string, role: string | null, reason: string]) =>
  db.asRole("service_role", async () => {
    const sql = "select private.set_console_role($1, $2, $3) as outcome";
    return (await one<{ outcome: string }>(db, { sql, values })).outcome;
  });

/** Creates an account whose role is finance, with an authenticator that its session has proved. */
async function createFinancePerson(db: Database) {
  const claims = await createActor(db, { mfa: "a factor, at AAL2" });
  await db.query("insert into private.finance_people (user_id, reason) values ($1, 'test')", [claims.sub]);
  return claims;
}

interface SqlFunction {
  signature: string;
  name: string;
  body: string;
  /** Whether our server may call it. */
  granted: boolean;
  arguments: string;
}

const readFunctions = (db: Database) =>
  db.query<SqlFunction>(`
    select p.oid::regprocedure::text as signature, n.nspname || '.' || p.proname as name, p.prosrc as body,
      has_function_privilege('service_role', p.oid, 'execute') as granted,
      pg_catalog.oidvectortypes(p.proargtypes) as arguments
    from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
    where n.nspname in ('public', 'private', 'ai')
    order by 1`);

/** Functions that report whether an account is an admin, and refuse nothing. */
const reports = [
  "public.session_state",
  "private.console_role",
  "private.describe_account",
  "private.account_overview",
  "private.is_emailed_about_outages",
  "private.is_admin_confirming",
];

/** Functions that act for an admin and take more than the change, each with a call by a finance person. */
const otherCalls: Record<string, (db: Database, claims: object) => Promise<unknown>> = {
  "private.search_audit_log": async (db, claims) =>
    (
      await one<{ lines: unknown }>(db, {
        sql: "select private.search_audit_log($1, '{}') as lines",
        values: [JSON.stringify(claims)],
      })
    ).lines,
  ...Object.fromEntries(
    ["change_once", "make_console_change"].map((name) => [
      `private.${name}`,
      async (db: Database, claims: object) => {
        const change = { actor: (claims as { sub: string }).sub, plan: "new", reason: "test", idempotencyKey: "key" };
        const { refused } = await one<{ refused: string | null }>(db, {
          sql: `select private.${name}('save_plan', $1) ->> 'refused' as refused`,
          values: [JSON.stringify(change)],
        });
        return refused === "forbidden" ? null : { refused };
      },
    ]),
  ),
  ...Object.fromEntries(
    ["private.may_change_apps($1)", "private.may_change_console($1, 'admin:books')"].map((call) => [
      call.replace(/\(.*/, ""),
      async (db: Database, claims: object) => {
        const values = [JSON.stringify({ actor: (claims as { sub: string }).sub })];
        return (await one<{ may: boolean }>(db, { sql: `select ${call} as may`, values })).may || null;
      },
    ]),
  ),
  ...Object.fromEntries(
    Object.entries({
      settings: { model: "new" },
      routes: [{ providerId: "openai", providerModel: "new" }],
      prices: [{ providerId: "openai", inputUsd: "1", outputUsd: "1" }],
      plans: { plans: ["free"] },
    }).map(([part, wanted]) => [
      `private.apply_model_${part}`,
      async (db: Database, claims: object) => {
        const author = { actor: (claims as { sub: string }).sub, model: "new", reason: "test" };
        const { refused } = await one<{ refused: string | null }>(db, {
          sql: `select private.apply_model_${part}($1, $2) ->> 'refused' as refused`,
          values: [JSON.stringify(wanted), JSON.stringify(author)],
        });
        return refused === "forbidden" ? null : { refused };
      },
    ]),
  ),
};

/** Returns the functions of our server that call is_infrastructure_admin, directly or by other functions. */
function adminFunctions(functions: readonly SqlFunction[]): SqlFunction[] {
  const found = new Set(["private.is_infrastructure_admin"]);
  for (let size = 0; size !== found.size; ) {
    size = found.size;
    const calls = new RegExp(`\\b(${[...found].join("|").replaceAll(".", "\\.")})\\(`);
    for (const { name, body } of functions) if (!reports.includes(name) && calls.test(body)) found.add(name);
  }
  return functions.filter(
    ({ name, granted }) => granted && found.has(name) && name !== "private.is_infrastructure_admin",
  );
}

describe("the roles of the console", () => {
  test("only the functions that define, set and list the roles read their tables", async ({ db }) => {
    const readers = (await readFunctions(db)).filter(({ body }) =>
      /private\.(infrastructure_admins|finance_people)\b/.test(body),
    );
    expect(readers.map(({ signature }) => signature)).toEqual([
      // Emails the people of the console.
      "ai.queue_outage_mails(jsonb,text,text)",
      // Emails the admins.
      "ai.request_key_approval(uuid,uuid,text,jsonb)",
      "private.console_role(uuid)",
      "private.is_infrastructure_admin(uuid)",
      "private.list_console_people()",
      "private.set_console_role(text,text,text)",
    ]);
  });

  test("every function that acts for an admin refuses a finance person", async ({ db }) => {
    const claims = await createFinancePerson(db);
    const functions = adminFunctions(await readFunctions(db));
    expect(functions.length).toBeGreaterThan(20);
    for (const { name, signature, arguments: args } of functions) {
      const call = otherCalls[name];
      if (call) {
        expect([name, await db.asRole("service_role", () => call(db, claims))]).toEqual([name, null]);
        continue;
      }
      expect([signature, args], "says in otherCalls how a finance person calls it").toEqual([signature, "jsonb"]);
      const sql = `select ${name}($1) as answer`;
      const values = [JSON.stringify({ actor: claims.sub, subject: claims.sub, reason: "test" })];
      const { answer } = await db.asRole("service_role", () => one<{ answer: object }>(db, { sql, values }));
      expect([signature, answer]).toEqual([signature, { refused: "forbidden" }]);
    }
  });

  test("a role is one row of its own: admin replaces finance and the reverse, and each change is audited", async ({
    db,
  }) => {
    const { id, email } = await createUser(db);
    const role = async () =>
      (await one<{ role: string | null }>(db, { sql: "select private.console_role($1) as role", values: [id] })).role;
    const steps: [wanted: string | null, outcome: string][] = [
      [null, "unchanged"],
      ["finance", "changed"],
      ["finance", "unchanged"],
      ["admin", "changed"],
      ["finance", "changed"],
      [null, "changed"],
    ];
    for (const [wanted, outcome] of steps) {
      expect([wanted, await setRole(db, [email, wanted, "ticket 1"])]).toEqual([wanted, outcome]);
      expect(await role()).toBe(wanted);
      const counted = await one<{ rows: number }>(db, {
        sql: `select ((select count(*) from private.infrastructure_admins where user_id = $1)
          + (select count(*) from private.finance_people where user_id = $1))::integer as rows`,
        values: [id],
      });
      expect(counted.rows).toBe(wanted === null ? 0 : 1);
    }
    const log = await db.query(
      "select action, actor_id, reason from private.admin_audit_log where target_user_id = $1 order by created_at",
      [id],
    );
    expect(log).toEqual(
      ["finance.grant", "finance.revoke", "admin.grant", "admin.revoke", "finance.grant", "finance.revoke"].map(
        (action) => ({ action, actor_id: null, reason: "ticket 1" }),
      ),
    );
  });

  test("set_console_role refuses an unknown role and an unknown account", async ({ db }) => {
    const { email } = await createUser(db);
    await expect(setRole(db, [email, "owner", "test"])).rejects.toMatchObject({ code: "22023" });
    expect(await setRole(db, [`unknown-${email}`, "finance", "test"])).toBe("no_account");
  });

  test("a server and a command line of release 0.3.0 take no finance person for an admin", async ({ db }) => {
    const { id, email } = await createUser(db);
    const admin = await createAdmin(db);
    await db.query("insert into private.finance_people (user_id, reason) values ($1, 'test')", [id]);
    const { listed } = await db.asRole("service_role", () =>
      one<{ listed: { email: string }[] }>(db, { sql: "select private.list_infrastructure_admins() as listed" }),
    );
    const emails = listed.map((person) => person.email);
    expect([emails.includes(admin.email), emails.includes(email)]).toEqual([true, false]);
    const { overview } = await one<{ overview: object }>(db, {
      sql: "select private.account_overview($1) as overview",
      values: [id],
    });
    expect(overview).toMatchObject({ consoleRole: "finance", infrastructureAdmin: false });
    const grant = await db.asRole("service_role", () =>
      one<{ outcome: string }>(db, {
        sql: "select private.set_infrastructure_admin($1, false, 'left') as outcome",
        values: [email],
      }),
    );
    expect(grant.outcome).toBe("changed");
  });
});

test("an account whose deletion is scheduled gets no role, and loses any", async ({ db }) => {
  const [admin, person] = [await createAdmin(db), await createUser(db)];
  await admin.ask("request_account_deletion", { subject: person.id });
  for (const role of ["admin", "finance"])
    expect(await setRole(db, [person.email, role, "test"]), role).toBe("deletion_scheduled");
  await db.query("insert into private.finance_people (user_id, reason) values ($1, 'test')", [person.id]);
  expect(await setRole(db, [person.email, null, "test"])).toBe("changed");
});

test("lists the platform’s service accounts that a person may still use", async ({ db }) => {
  const person = await createUser(db);
  const create = () => createMachine(db);
  const [created, credential, revoked, other] = [await create(), await create(), await create(), await create()];
  const update = (table: string, { set = "", id = "" }) =>
    db.query(`update private.${table} set created_by = $1${set} where id = $2`, [person.id, id]);
  await update("service_accounts", { id: created.id });
  await update("service_account_credentials", { id: credential.credentialId });
  await update("service_accounts", { id: revoked.id, set: ", revoked_at = now()" });
  await update("service_account_credentials", { id: other.credentialId, set: ", expires_at = now()" });
  const { accounts } = await db.asRole("service_role", () =>
    one<{ accounts: { id: string }[] }>(db, {
      sql: "select private.service_accounts_of_person($1) as accounts",
      values: [person.email],
    }),
  );
  expect(accounts.map(({ id }) => id).sort()).toEqual([created.id, credential.id].sort());
});
