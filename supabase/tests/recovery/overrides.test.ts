import { describe, expect } from "vitest";
import { createActor, failureOf } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { ask, commitPeople, eventsOf, issue, needHelp, override } from "./fixtures.ts";

const create = (db: Database, request: object) =>
  ask(db, "create_recovery_override", {
    reason: "locked out",
    normalLogin: true,
    recoveryEmail: true,
    ...request,
  });

const loginOverride = async (db: Database, email: string) =>
  (await one<{ id: string | null }>(db, { sql: "select private.active_login_override($1) as id", values: [email] })).id;

describe("a recovery override", () => {
  test("a recovery override lasts seven days by default, is logged, and matches its email case-insensitively", async ({
    db,
  }) => {
    const { actor, userId, email } = await needHelp(db);
    const { overrideId } = await create(db, { actor, email: ` ${email.toUpperCase()} ` });
    expect(await loginOverride(db, email.toUpperCase())).toBe(overrideId);
    const row = await one(db, {
      sql: `select email, created_by, extract(epoch from expires_at - created_at)::int as seconds
            from private.recovery_overrides where id = $1`,
      values: [overrideId],
    });
    expect(row).toEqual({ email, created_by: actor, seconds: 7 * 86_400 });
    expect(await eventsOf(db, email)).toEqual(["create created"]);
    const log = await db.query(
      `select action, actor_id, target, reason, request_id, after ->> 'id' as override
       from private.admin_audit_log where target_user_id = $1`,
      [userId],
    );
    const line = { actor_id: actor, target: email, reason: "locked out", request_id: "request-1" };
    expect(log).toEqual([{ ...line, action: "recovery.create", override: overrideId }]);
  });

  test.for([
    [1, true],
    [30 * 86_400, true],
    [30 * 86_400 + 1, false],
    [0, false],
    [-1, false],
  ] as const)("a recovery override of %d seconds is accepted: %s", async ([lifetimeSeconds, taken], { db }) => {
    const { actor, email } = await needHelp(db);
    const answer = await create(db, { actor, email, lifetimeSeconds });
    expect(answer).toEqual(
      taken ? expect.objectContaining({ overrideId: expect.any(String) }) : { refused: "lifetime" },
    );
  });

  test("a recovery override ends when it expires or is revoked", async ({ db }) => {
    const { actor, email } = await needHelp(db);
    const overrideId = await override(db, { actor, email, lifetimeSeconds: 60 });
    expect(await create(db, { actor, email })).toEqual({ refused: "active" });
    const shift = (seconds: number) =>
      db.query(
        `update private.recovery_overrides
         set created_at = created_at - make_interval(secs => $2), expires_at = expires_at - make_interval(secs => $2)
         where id = $1`,
        [overrideId, seconds],
      );
    await shift(59.999);
    expect(await loginOverride(db, email)).toBe(overrideId);
    await shift(0.001);
    expect(await loginOverride(db, email)).toBeNull();
    expect(await ask(db, "revoke_recovery_override", { actor, overrideId, reason: "done" })).toEqual({
      refused: "inactive",
    });

    const next = await override(db, { actor, email });
    expect(await ask(db, "revoke_recovery_override", { actor, overrideId: next, reason: "done" })).toEqual({});
    expect(await loginOverride(db, email)).toBeNull();
    const again = { actor, overrideId: next, reason: "done" };
    expect(await ask(db, "revoke_recovery_override", again)).toEqual({ refused: "inactive" });
    await expect(issue(db, again)).rejects.toThrow("inactive");
    expect(await eventsOf(db, email)).toEqual([
      "create created",
      "reject inactive",
      "create created",
      "revoke revoked",
      "reject inactive",
      "reject inactive",
    ]);
  });

  test("a recovery override must allow normal sign-in, recovery emails or both", async ({ db }) => {
    const { actor, email } = await needHelp(db);
    const overrideId = await override(db, { actor, email, normalLogin: false });
    expect(await loginOverride(db, email)).toBeNull();
    await ask(db, "revoke_recovery_override", { actor, overrideId, reason: "again" });
    const loginOnly = await override(db, { actor, email, recoveryEmail: false });
    expect(await loginOverride(db, email)).toBe(loginOnly);
    await expect(issue(db, { actor, overrideId: loginOnly })).rejects.toThrow("switched_off");
    expect((await eventsOf(db, email)).at(-1)).toBe("reject switched_off");
    await ask(db, "revoke_recovery_override", { actor, overrideId: loginOnly, reason: "again" });
    const neither = () => create(db, { actor, email, normalLogin: false, recoveryEmail: false });
    expect((await failureOf(neither)).code).toBe("23514");
  });

  test("non-admins can't create a recovery override, admins can't create one for their own account, and both refusals are logged", async ({
    db,
  }) => {
    const { actor, email } = await needHelp(db);
    const stranger = (await createActor(db, {})).sub;
    expect(await create(db, { actor: stranger, email })).toEqual({ refused: "forbidden" });
    const overrideId = await override(db, { actor, email });
    for (const name of ["revoke_recovery_override", "issue_recovery_credential"])
      expect(await ask(db, name, { actor: stranger, overrideId, reason: "x" })).toEqual({ refused: "forbidden" });
    expect(await eventsOf(db, email)).toEqual([
      "reject forbidden",
      "create created",
      "reject forbidden",
      "reject forbidden",
    ]);
    const own = `${actor}@example.test`;
    expect(await create(db, { actor, email: own.toUpperCase() })).toEqual({ refused: "oneself" });
    expect(await eventsOf(db, own)).toEqual(["reject oneself"]);
  });

  test("50 concurrent callers create only one recovery override for an email address", async () => {
    const { db, close } = openPool(50);
    const people = await commitPeople(db);
    try {
      const request = { actor: people.actor, email: people.email };
      const answers = await Promise.all(Array.from({ length: 50 }, () => create(db, request)));
      expect(answers.filter(({ overrideId }) => overrideId)).toHaveLength(1);
      expect(answers.filter(({ refused }) => refused === "active")).toHaveLength(49);
    } finally {
      await people.remove();
      await close();
    }
  });

  test("the console shows an email address's account, recovery overrides and attempts, but no recovery link or code", async ({
    db,
  }) => {
    const { actor, userId, email } = await needHelp(db);
    const overrideId = await override(db, { actor, email });
    const { tokenHash, codeHash } = await issue(db, { actor, overrideId });
    await db.query("select private.begin_attempt($1)", [
      JSON.stringify({ action: "password", address: "192.0.2.9", email }),
    ]);
    const { overview } = await one<{ overview: object }>(db, {
      sql: "select private.recovery_overview($1) as overview",
      values: [email.toUpperCase()],
    });
    expect(overview).toMatchObject({
      email,
      account: { id: userId, bannedUntil: null },
      overrides: [{ id: overrideId, active: true, createdBy: `${actor}@example.test` }],
      counters: [
        { action: "password", scope: "account", used: 1, attempts: 20, perSeconds: 3_600 },
        { action: "password", scope: "account_cap", used: 1, attempts: 100 },
      ],
    });
    for (const secret of [tokenHash, codeHash]) expect(JSON.stringify(overview)).not.toContain(secret);
    const unknown = await one<{ overview: object }>(db, {
      sql: "select private.recovery_overview('unknown@example.test') as overview",
    });
    expect(unknown.overview).toMatchObject({ account: null, overrides: [], events: [], codes: null, counters: [] });
  });
});

test("only the service role can call the recovery functions", async ({ db }) => {
  const claims = await createActor(db, {});
  const calls: (() => Promise<unknown>)[] = [
    ...["create_recovery_override", "revoke_recovery_override", "issue_recovery_credential"].map(
      (name) => () => ask(db, name, { actor: claims.sub, email: "a@example.test", reason: "x" }),
    ),
    ...["consume_recovery_credential", "verify_override_password"].map(
      (name) => () => ask(db, name, { email: "a@example.test", password: "x", codeHash: "00", tokenHash: "00" }),
    ),
    ...["recovery_overview", "recovery_code_salt"].map(
      (name) => () => db.query(`select private.${name}('a@example.test')`),
    ),
    () => db.query("select private.find_recovery_link_email('\\x00')"),
    () => db.query("select from private.recovery_credentials"),
    () => db.query("select from private.recovery_overrides"),
    () => db.query("select from private.recovery_events"),
  ];
  for (const call of calls) {
    expect((await failureOf(() => db.asUser(claims, call))).code).toBe("42501");
    for (const role of ["anon", "gateway"] as const)
      expect((await failureOf(() => db.asRole(role, call))).code).toBe("42501");
    await db.asRole("service_role", call);
  }
});

test("the recovery log can be appended to but not changed", async ({ db }) => {
  for (const sql of ["update private.recovery_events set outcome = 'x'", "delete from private.recovery_events"])
    expect((await failureOf(() => db.asRole("service_role", () => db.query(sql)))).code).toBe("42501");
});
