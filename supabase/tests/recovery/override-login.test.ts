import { hash } from "@node-rs/bcrypt";
import { describe, expect } from "vitest";
import { begin as beginAttempt } from "../abuse/attempt-fixtures.ts";
import { type Database, one, test } from "../database.ts";
import { ask, eventsOf, needHelp, override } from "./fixtures.ts";

const password = "correct horse battery";

async function setting(db: Database, options: { normalLogin?: boolean; prefix?: string } = {}) {
  const people = await needHelp(db);
  const stored = (await hash(password, { cost: 4 })).replace(/^\$2.\$/, options.prefix ?? "$2a$");
  await db.query("update auth.users set encrypted_password = $2, created_at = now() - interval '1 day' where id = $1", [
    people.userId,
    stored,
  ]);
  const overrideId = await override(db, { ...people, normalLogin: options.normalLogin ?? true });
  return { ...people, overrideId };
}

const prove = (db: Database, request: { email: string; password: string }) =>
  ask(db, "verify_override_password", request);

describe("signing in with a password under a recovery override", () => {
  test.for([
    ["ban_account", { until: null }],
    ["request_account_deletion", {}],
  ] as const)("%s revokes an override that was created before", async ([name, fields], { db }) => {
    const { actor, userId, email } = await setting(db);
    const change = { actor, subject: userId, reason: "test", requestId: "test", ip: "203.0.113.7", ...fields };
    expect(await ask(db, name, change)).toEqual({});
    expect(await prove(db, { email, password })).toEqual({ outcome: "none" });
  });

  test.for(["$2a$", "$2b$", "$2y$"])(
    "verifies a password under a recovery override against a hash with the prefix %s",
    async (prefix, { db }) => {
      const { email, userId, overrideId } = await setting(db, { prefix });
      expect(await prove(db, { email: email.toUpperCase(), password })).toEqual({
        outcome: "proven",
        overrideId,
        userId,
        banned: false,
        confirmed: false,
      });
      expect(await prove(db, { email, password: `${password} ` })).toEqual({ outcome: "wrong" });
      expect(await eventsOf(db, email)).toEqual([
        "create created",
        "login_bypass password_proven",
        "reject login_wrong",
      ]);
      const rows = await db.query<{ row: string }>(
        "select to_jsonb(e)::text as row from private.recovery_events e where email = $1",
        [email],
      );
      for (const { row } of rows) expect(row).not.toContain(password);
    },
  );

  test("does not verify a password without a recovery override that allows password sign-in", async ({ db }) => {
    const { email } = await setting(db, { normalLogin: false });
    expect(await prove(db, { email, password })).toEqual({ outcome: "none" });
    expect(await prove(db, { email: "unknown@example.test", password })).toEqual({ outcome: "none" });
  });

  test("a password is not accepted for an unconfirmed email if the account is newer than the recovery override", async ({
    db,
  }) => {
    const { email, userId } = await setting(db);
    const born = (secondsBefore: number) =>
      db.query(
        `update auth.users u set created_at = o.created_at - make_interval(secs => $2)
         from private.recovery_overrides o where o.email = u.email and u.id = $1`,
        [userId, secondsBefore],
      );
    for (const secondsBefore of [0, -60]) {
      await born(secondsBefore);
      expect(await prove(db, { email, password })).toEqual({ outcome: "unconfirmed" });
      expect(await prove(db, { email, password: "other" })).toEqual({ outcome: "wrong" });
    }
    expect(await eventsOf(db, email)).toContain("reject login_unconfirmed");
    await db.query("update auth.users set email_confirmed_at = now() where id = $1", [userId]);
    expect(await prove(db, { email, password })).toMatchObject({ outcome: "proven", confirmed: true });
    await db.query("update auth.users set email_confirmed_at = null where id = $1", [userId]);
    await born(0.001);
    expect(await prove(db, { email, password })).toMatchObject({ outcome: "proven", confirmed: false });
  });

  test("the admin who created a recovery override can't sign in under it, even after taking over the email address", async ({
    db,
  }) => {
    const { email, userId, overrideId } = await setting(db);
    await db.query("update private.recovery_overrides set created_by = $2 where id = $1", [overrideId, userId]);
    expect(await one(db, { sql: "select private.active_login_override($1) as id", values: [email] })).toEqual({
      id: null,
    });
    expect(await prove(db, { email, password })).toEqual({ outcome: "oneself" });
    expect((await eventsOf(db, email)).at(-1)).toBe("reject login_oneself");
  });

  test("a recovery override doesn't let an account without a password sign in with an empty password", async ({
    db,
  }) => {
    const { email, userId } = await setting(db);
    for (const none of ["", null]) {
      await db.query("update auth.users set encrypted_password = $2 where id = $1", [userId, none]);
      expect(await prove(db, { email, password: "" })).toEqual({ outcome: "wrong" });
    }
  });

  test("a password under a recovery override can be tried at most a hundred times an hour", async ({ db }) => {
    const { email } = await setting(db);
    await db.query(
      `select private.consume_attempt(b.subject, 'override_password', b.scope, b.step, b.per)
       from private.attempt_buckets('override_password', 'email:' || $1, null) b, generate_series(1, 99)`,
      [email],
    );
    expect(await prove(db, { email, password })).toMatchObject({ outcome: "proven" });
    expect(await prove(db, { email, password })).toEqual({ outcome: "limited" });
    expect((await eventsOf(db, email)).at(-1)).toBe("reject login_limited");
  });
});

describe("rate limits for an attempt under a recovery override", () => {
  const begin = (db: Database, attempt: { email: string; allowOverride?: boolean }) =>
    beginAttempt(db, { action: "password", address: "192.0.2.8", ...attempt });

  async function exhaust(db: Database, email: string): Promise<void> {
    for (let attempt = 0; attempt < 10; attempt += 1) await begin(db, { email });
    expect(await begin(db, { email })).toMatchObject({ allowed: false });
  }

  test("an override allows ten attempts in 15 minutes beyond the limits of the email, and is returned", async ({
    db,
  }) => {
    const { email, overrideId } = await setting(db);
    await exhaust(db, email);
    for (let attempt = 0; attempt < 10; attempt += 1) {
      const typed = attempt % 2 ? email : email.toUpperCase();
      expect(await begin(db, { email: typed, allowOverride: true })).toMatchObject({ allowed: true, overrideId });
    }
    expect(await begin(db, { email, allowOverride: true })).toMatchObject({ allowed: false, reason: "limited" });
  });

  test.for([
    ["the attempt does not allow overrides", "", false],
    ["the override allows only recovery emails", "set normal_login = false", true],
    ["the override was revoked", "set revoked_at = now(), revoked_by = created_by", true],
    ["the override has expired", "set created_at = now() - interval '2 s', expires_at = now() - interval '1 s'", true],
    ["the override was created by the account itself", "set created_by = $2", true],
  ] as const)("an attempt stays limited if %s", async ([_, change, allowOverride], { db }) => {
    const { email, userId, overrideId } = await setting(db);
    if (change) {
      const values = change.includes("$2") ? [overrideId, userId] : [overrideId];
      await db.query(`update private.recovery_overrides ${change} where id = $1`, values);
    }
    expect(await begin(db, { email, allowOverride })).toMatchObject({ allowed: true, overrideId: null });
    await exhaust(db, email);
    expect(await begin(db, { email, allowOverride })).toMatchObject({ allowed: false, reason: "limited" });
  });

  test("an attempt is refused even under an override if the IP address is blocked or has reached its own limit", async ({
    db,
  }) => {
    const { email } = await setting(db);
    for (let attempt = 0; attempt < 60; attempt += 1) await begin(db, { email: `${attempt}@example.test` });
    expect(await begin(db, { email, allowOverride: true })).toMatchObject({ allowed: false, reason: "limited" });
    await db.query(
      "insert into private.address_blocks (address, action, level, blocked_until) values ('192.0.2.8', 'password', 1, now() + interval '1 minute')",
    );
    expect(await begin(db, { email, allowOverride: true })).toMatchObject({ allowed: false, reason: "blocked" });
  });
});
