import { randomBytes } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, failureOf } from "./actors.ts";
import { bindApproval, createUser, currentSecond, type Database, enrollFactor, signIn, test } from "./database.ts";

const closedTables = async (db: Database) =>
  db.query<{ name: string }>(`
    select format('%I.%I', n.nspname, c.relname) as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in ('private', 'ai') and c.relkind in ('r', 'p') order by 1`);

describe("private schemas", () => {
  test("the schemas private and ai hide every table from anon, signed-in users and the gateway's login", async ({
    db,
  }) => {
    const tables = await closedTables(db);
    expect(tables.length).toBeGreaterThanOrEqual(3);
    const claims = await createActor(db, {});
    for (const { name } of tables) {
      const read = () => db.query(`select from ${name}`);
      expect(await failureOf(() => db.asUser(claims, read)), name).toMatchObject({ code: "42501" });
      expect(await failureOf(() => db.asRole("anon", read)), name).toMatchObject({ code: "42501" });
      expect(await failureOf(() => db.asRole("gateway", read)), name).toMatchObject({ code: "42501" });
    }
  });

  test("signed-in users can't call any function of private and ai, not even those that row-level security policies call", async ({
    db,
  }) => {
    const claims = await createActor(db, {});
    for (const call of [
      "account_required_mfa_satisfied()",
      "my_workspace_ids()",
      "my_workspace_ids_with_permission('manage_members')",
    ]) {
      const error = await failureOf(() => db.asUser(claims, () => db.query(`select private.${call}`)));
      expect(error.message).toBe("permission denied for schema private");
    }
  });

  test("the service role can read the tables of the schemas private and ai", async ({ db }) => {
    for (const { name } of await closedTables(db))
      await db.asRole("service_role", () => db.query(`select from ${name} limit 1`));
  });

  test("row-level security hides private tables even from roles with grants", async ({ db }) => {
    const claims = await createActor(db, {});
    await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'first')", [claims.sub]);
    await db.query(
      "grant usage on schema private to authenticated; grant select on private.infrastructure_admins to authenticated",
    );
    expect(await db.asUser(claims, () => db.query("select from private.infrastructure_admins"))).toEqual([]);
  });
});

describe("the admin audit log", () => {
  const record = (db: Database, actor: string, target: string) =>
    db.query(
      "insert into private.admin_audit_log (actor_id, action, target_user_id, target, reason) values ($1, 'mfa.require', $2, 'x@example.test', 'r')",
      [actor, target],
    );

  test("the service role can append to the admin audit log but not change it", async ({ db }) => {
    const [actor, target] = [await createUser(db), await createUser(db)];
    await db.asRole("service_role", () => record(db, actor.id, target.id));
    for (const sql of [
      "update private.admin_audit_log set reason = 'x'",
      "delete from private.admin_audit_log",
      "truncate private.admin_audit_log",
    ])
      expect((await failureOf(() => db.asRole("service_role", () => db.query(sql)))).code).toBe("42501");
  });

  test("entries of the admin audit log remain when the actor and target are deleted", async ({ db }) => {
    const [actor, target] = [await createUser(db), await createUser(db)];
    await record(db, actor.id, target.id);
    await db.query("delete from auth.users where id = any ($1)", [[actor.id, target.id]]);
    expect(await db.query("select actor_id, target_user_id, target from private.admin_audit_log")).toContainEqual({
      actor_id: null,
      target_user_id: null,
      target: "x@example.test",
    });
  });
});

describe("login challenges", () => {
  const challenge = (db: Database, { kind, seconds, pairCode }: { kind: string; seconds: number; pairCode: boolean }) =>
    createUser(db).then(({ id }) =>
      db.query(
        `insert into private.login_challenges (kind, user_id, session_id, secret_hash, pair_code_hash, expires_at)
         values ($1, $2, gen_random_uuid(), $3, $4, now() + make_interval(secs => $5))`,
        [kind, id, randomBytes(32), pairCode ? randomBytes(32) : null, seconds],
      ),
    );

  test.for([
    { kind: "qr", seconds: 120, pairCode: false, allowed: true },
    { kind: "qr", seconds: 121, pairCode: false, allowed: false },
    { kind: "qr", seconds: 0, pairCode: false, allowed: false },
    { kind: "qr", seconds: 60, pairCode: true, allowed: false },
    { kind: "mfa_mobile", seconds: 300, pairCode: true, allowed: true },
    { kind: "mfa_mobile", seconds: 301, pairCode: true, allowed: false },
    { kind: "mfa_mobile", seconds: 60, pairCode: false, allowed: false },
    { kind: "other", seconds: 60, pairCode: false, allowed: false },
  ])(
    "inserting a login challenge (kind: $kind, lifetime: $seconds s, pair code: $pairCode) succeeds: $allowed",
    async ({ allowed, ...row }, { db }) => {
      if (allowed) await challenge(db, row);
      else expect((await failureOf(() => challenge(db, row))).code).toBe("23514");
    },
  );

  test.for([
    "bound_session_id = gen_random_uuid()",
    "approver_session_id = session_id",
    "approver_factor_id = null",
    "valid_until = bound_at + interval '12 hours 1 second'",
    "second_factor_at = approved_at + interval '1 second'",
    "second_factor_at = null",
    "valid_until = null",
    "failed_attempts = 6",
    "kind = 'qr', pair_code_hash = null, expires_at = created_at + interval '1 minute'",
  ])("the database refuses a bound login challenge with %s", async (assignment, { db }) => {
    const user = await createUser(db);
    const claims = await signIn(db, { userId: user.id });
    const factorId = await enrollFactor(db, { userId: user.id });
    const id = await bindApproval(db, { claims, factorId, secondFactorAt: await currentSecond(db) });
    const change = () => db.query(`update private.login_challenges set ${assignment} where id = $1`, [id]);
    expect((await failureOf(change)).code).toBe("23514");
  });

  test("login challenges have no column for a token", async ({ db }) => {
    const columns = await db.query<{ name: string }>(
      "select attname as name from pg_attribute where attrelid = 'private.login_challenges'::regclass and attnum > 0",
    );
    expect(columns.filter(({ name }) => /token|jwt|refresh/.test(name))).toEqual([]);
  });
});
