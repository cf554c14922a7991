import { describe, expect } from "vitest";
import { newAddress } from "../../../remix-app/testing/visitor.ts";
import { failureOf } from "../actors.ts";
import { createUser, type Database, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { admitted, age, anAttempt, begin, ownRows, settle, tellHook } from "./attempt-fixtures.ts";

const password = "password_verification_attempt" as const;
const mfa = "mfa_verification_attempt" as const;

const guess = (db: Database, userId: string, address: string | undefined = newAddress()) =>
  tellHook(db, password, { userId, valid: false, address });
const signIn = (db: Database, userId: string, address: string | undefined = newAddress()) =>
  tellHook(db, password, { userId, valid: true, address });

describe(password, () => {
  test("10 wrong passwords for an account, sent directly to the identity backend from one address, are allowed, and then even the right one is refused", async ({
    db,
  }) => {
    const { id } = await createUser(db);
    const address = newAddress();
    for (let made = 0; made < 10; made += 1) expect(await guess(db, id, address)).toBe(true);
    expect(await guess(db, id, address)).toBe(false);
    expect(await signIn(db, id, address)).toBe(false);
    expect(await signIn(db, id)).toBe(true);
    await age(db, "90 seconds");
    expect(await signIn(db, id, address)).toBe(true);
  });

  test("after 30 wrong passwords for an account, sent directly to the identity backend from different addresses, even the right password is refused", async ({
    db,
  }) => {
    const { id } = await createUser(db);
    const other = await createUser(db);
    for (let made = 0; made < 30; made += 1) expect(await guess(db, id)).toBe(true);
    expect(await guess(db, id)).toBe(false);
    expect(await signIn(db, id)).toBe(false);
    expect(await signIn(db, other.id)).toBe(true);
    await age(db, "2 minutes");
    expect(await signIn(db, id)).toBe(true);
  });

  test("right passwords don't count as guesses", async ({ db }) => {
    const { id } = await createUser(db);
    const address = newAddress();
    for (let made = 0; made < 100; made += 1) expect(await signIn(db, id, address)).toBe(true);
    for (let made = 0; made < 10; made += 1) expect(await guess(db, id, address)).toBe(true);
  });

  test("the hook admits the owner from their usual address while others guess from elsewhere", async ({ db }) => {
    const { id } = await createUser(db);
    const home = newAddress();
    expect(await signIn(db, id, home)).toBe(true);
    for (let made = 0; made < 40; made += 1) await guess(db, id);
    expect(await signIn(db, id)).toBe(false);
    expect(await signIn(db, id, home)).toBe(true);
  });

  test("after 40 wrong passwords sent directly to the identity backend, a password attempt admitted by our routes allows exactly one sign-in", async ({
    db,
  }) => {
    const { id, email } = await createUser(db);
    const address = newAddress();
    for (let made = 0; made < 40; made += 1) await guess(db, id);
    await admitted(db, anAttempt({ email: email.toUpperCase(), address }));
    expect(await signIn(db, id)).toBe(false);
    expect(await signIn(db, id, address)).toBe(true);
    expect(await signIn(db, id, address)).toBe(false);
  });

  test("the hook neither refuses nor counts a wrong password that our routes already counted", async ({ db }) => {
    const { id, email } = await createUser(db);
    const address = newAddress();
    for (let made = 0; made < 10; made += 1) {
      const attempt = await admitted(db, anAttempt({ email, address }));
      expect(await guess(db, id, address)).toBe(true);
      await settle(db, attempt, "failed");
    }
    for (let made = 0; made < 10; made += 1) expect(await guess(db, id, address)).toBe(true);
    expect(await guess(db, id, address)).toBe(false);
  });

  test.for([
    ["of another account", { email: "someone-else@example.test" }],
    ["to send an email", { action: "mail" }],
    ["to enter a code", { action: "code" }],
  ] as const)(
    "an admitted attempt %s doesn't let a password sign-in past the hook's limit on direct guesses",
    async ([, changes], { db }) => {
      const { id, email } = await createUser(db);
      const address = newAddress();
      for (let made = 0; made < 40; made += 1) await guess(db, id);
      await admitted(db, anAttempt({ email, address, ...changes }));
      expect(await signIn(db, id, address)).toBe(false);
    },
  );

  test("the hook does not accept an attempt that is settled or expired", async ({ db }) => {
    const { id, email } = await createUser(db);
    const address = newAddress();
    for (let made = 0; made < 40; made += 1) await guess(db, id);
    await settle(db, await admitted(db, anAttempt({ email, address })), "void");
    expect(await signIn(db, id, address)).toBe(false);
    await admitted(db, anAttempt({ email, address }));
    await db.query(`update private.open_attempts set expires_at = now() where ${ownRows}`);
    expect(await signIn(db, id, address)).toBe(false);
  });

  test("the password hook lets an admitted sign-up continue even if the account's attempt limit is used up", async ({
    db,
  }) => {
    const { id, email } = await createUser(db);
    const address = newAddress();
    for (let made = 0; made < 40; made += 1) await guess(db, id);
    await admitted(db, anAttempt({ action: "sign_up", email, address }));
    expect(await signIn(db, id, address)).toBe(true);
  });

  test("the hook refuses a blocked address", async ({ db }) => {
    const { id } = await createUser(db);
    await db.query(
      "insert into private.address_blocks (address, action, level, blocked_until) values ('203.0.113.4', 'code', 1, now() + interval '1 hour')",
    );
    expect(await signIn(db, id, "203.0.113.4")).toBe(false);
    expect(await signIn(db, id, "203.0.113.5")).toBe(true);
  });

  test("if the backend passes no address or an invalid one, the hook limits attempts by account alone", async ({
    db,
  }) => {
    const { id } = await createUser(db);
    for (let made = 0; made < 30; made += 1)
      expect(
        await tellHook(db, password, { userId: id, valid: false, address: made % 2 ? undefined : "unknown" }),
      ).toBe(true);
    expect(await tellHook(db, password, { userId: id, valid: true })).toBe(false);
  });

  test.for(["{}", '{"user_id": "9b4ac1a4-5b0f-4a27-8c7c-0a7a7a3f2d11", "valid": true}', '{"valid": true}'])(
    "the hook fails for an event without a known user: %s",
    async (event, { db }) => {
      const call = () => db.query(`select private.${password}($1)`, [event]);
      expect((await failureOf(call)).code).toBe("22023");
    },
  );

  test("the hook lets through 11 of 60 concurrent wrong passwords: one admitted by our routes and ten sent directly to the identity backend", async () => {
    const { db, close } = openPool(20);
    try {
      const { id, email } = await createUser(db);
      const address = newAddress();
      await admitted(db, anAttempt({ email, address }));
      const answers = await Promise.all(Array.from({ length: 60 }, () => guess(db, id, address)));
      expect(answers.filter(Boolean)).toHaveLength(11);
      await db.query("delete from auth.users where id = $1", [id]);
    } finally {
      await close();
    }
  });
});

describe(mfa, () => {
  const code = (db: Database, userId: string, valid: boolean) =>
    tellHook(db, mfa, { userId, valid, address: newAddress() });

  test("the hook rejects an account's codes after ten failures in 15 minutes, even if every failure came from a different address", async ({
    db,
  }) => {
    const { id } = await createUser(db);
    const other = await createUser(db);
    for (let made = 0; made < 9; made += 1) expect(await code(db, id, false)).toBe(true);
    expect(await code(db, id, true)).toBe(true);
    expect(await code(db, id, false)).toBe(true);
    expect(await code(db, id, true)).toBe(false);
    expect(await code(db, id, false)).toBe(false);
    expect(await code(db, other.id, true)).toBe(true);
    await age(db, "89 seconds");
    expect(await code(db, id, true)).toBe(false);
    await age(db, "1 second");
    expect(await code(db, id, true)).toBe(true);
  });

  test("wrong MFA codes never reach the hook's limit at the rate that our routes allow", async ({ db }) => {
    const { id } = await createUser(db);
    for (let seconds = 0; seconds < 1_800; seconds += 45) {
      const begun = await begin(db, { action: "code", address: newAddress(), userId: id });
      if (begun.allowed) expect(await code(db, id, false)).toBe(true);
      await age(db, "45 seconds");
    }
  });

  test("right codes don't count as failures", async ({ db }) => {
    const { id } = await createUser(db);
    for (let made = 0; made < 50; made += 1) expect(await code(db, id, true)).toBe(true);
  });

  test("of 60 concurrent code attempts, the hook admits ten", async () => {
    const { db, close } = openPool(20);
    try {
      const userId = crypto.randomUUID();
      const answers = await Promise.all(Array.from({ length: 60 }, () => code(db, userId, false)));
      expect(answers.filter(Boolean)).toHaveLength(10);
    } finally {
      await close();
    }
  });
});

describe("permissions of the password and MFA hooks", () => {
  test.for([password, mfa])("only the identity backend can call %s", async (hook, { db }) => {
    for (const role of ["anon", "authenticated", "gateway", "service_role"] as const)
      expect((await failureOf(() => db.asRole(role, () => db.query(`select private.${hook}('{}')`)))).code).toBe(
        "42501",
      );
  });
});
