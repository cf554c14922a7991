import { describe, expect } from "vitest";
import { newAddress } from "../../remix-app/testing/visitor.ts";
import { failureOf } from "./actors.ts";
import { admitted, age, anAttempt, begin, ownRows, settle, tellHook } from "./attempt-fixtures.ts";
import { createUser, type Database, test } from "./database.ts";
import { openPool } from "./pools.ts";

const password = "password_verification_attempt" as const;
const mfa = "mfa_verification_attempt" as const;

const guess = (db: Database, userId: string, address: string | undefined = newAddress()) =>
  tellHook(db, password, { userId, valid: false, address });
const signIn = (db: Database, userId: string, address: string | undefined = newAddress()) =>
  tellHook(db, password, { userId, valid: true, address });

describe(password, () => {
  test("allows 10 wrong direct guesses from one address at one account, and then refuses even the right one", async ({
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

  test("allows 30 wrong direct guesses at one account from any addresses", async ({ db }) => {
    const { id } = await createUser(db);
    const other = await createUser(db);
    for (let made = 0; made < 30; made += 1) expect(await guess(db, id)).toBe(true);
    expect(await guess(db, id)).toBe(false);
    expect(await signIn(db, id)).toBe(false);
    expect(await signIn(db, other.id)).toBe(true);
    await age(db, "2 minutes");
    expect(await signIn(db, id)).toBe(true);
  });

  test("does not count right passwords", async ({ db }) => {
    const { id } = await createUser(db);
    const address = newAddress();
    for (let made = 0; made < 100; made += 1) expect(await signIn(db, id, address)).toBe(true);
    for (let made = 0; made < 10; made += 1) expect(await guess(db, id, address)).toBe(true);
  });

  test("admits the owner from their usual address while others guess from elsewhere", async ({ db }) => {
    const { id } = await createUser(db);
    const home = newAddress();
    expect(await signIn(db, id, home)).toBe(true);
    for (let made = 0; made < 40; made += 1) await guess(db, id);
    expect(await signIn(db, id)).toBe(false);
    expect(await signIn(db, id, home)).toBe(true);
  });

  test("admits an attempt of our own routes once, regardless of direct guesses", async ({ db }) => {
    const { id, email } = await createUser(db);
    const address = newAddress();
    for (let made = 0; made < 40; made += 1) await guess(db, id);
    await admitted(db, anAttempt({ email: email.toUpperCase(), address }));
    expect(await signIn(db, id)).toBe(false);
    expect(await signIn(db, id, address)).toBe(true);
    expect(await signIn(db, id, address)).toBe(false);
  });

  test("admits a wrong password that our routes counted, and does not count it again", async ({ db }) => {
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
  ] as const)("does not accept an attempt %s as the account's password attempt", async ([, changes], { db }) => {
    const { id, email } = await createUser(db);
    const address = newAddress();
    for (let made = 0; made < 40; made += 1) await guess(db, id);
    await admitted(db, anAttempt({ email, address, ...changes }));
    expect(await signIn(db, id, address)).toBe(false);
  });

  test("does not accept an attempt that is settled or expired", async ({ db }) => {
    const { id, email } = await createUser(db);
    const address = newAddress();
    for (let made = 0; made < 40; made += 1) await guess(db, id);
    await settle(db, await admitted(db, anAttempt({ email, address })), "void");
    expect(await signIn(db, id, address)).toBe(false);
    await admitted(db, anAttempt({ email, address }));
    await db.query(`update private.open_attempts set expires_at = now() where ${ownRows}`);
    expect(await signIn(db, id, address)).toBe(false);
  });

  test("accepts the attempt of a sign-up for its password check", async ({ db }) => {
    const { id, email } = await createUser(db);
    const address = newAddress();
    for (let made = 0; made < 40; made += 1) await guess(db, id);
    await admitted(db, anAttempt({ action: "sign_up", email, address }));
    expect(await signIn(db, id, address)).toBe(true);
  });

  test("refuses a blocked address", async ({ db }) => {
    const { id } = await createUser(db);
    await db.query(
      "insert into private.address_blocks (address, action, level, blocked_until) values ('203.0.113.4', 'code', 1, now() + interval '1 hour')",
    );
    expect(await signIn(db, id, "203.0.113.4")).toBe(false);
    expect(await signIn(db, id, "203.0.113.5")).toBe(true);
  });

  test("limits attempts only by account if the backend passes no address, or an invalid one", async ({ db }) => {
    const { id } = await createUser(db);
    for (let made = 0; made < 30; made += 1)
      expect(
        await tellHook(db, password, { userId: id, valid: false, address: made % 2 ? undefined : "unknown" }),
      ).toBe(true);
    expect(await tellHook(db, password, { userId: id, valid: true })).toBe(false);
  });

  test.for(["{}", '{"user_id": "9b4ac1a4-5b0f-4a27-8c7c-0a7a7a3f2d11", "valid": true}', '{"valid": true}'])(
    "fails for an event that names none of our users: %s",
    async (event, { db }) => {
      const call = () => db.query(`select private.${password}($1)`, [event]);
      expect((await failureOf(call)).code).toBe("22023");
    },
  );

  test("admits no more of 60 concurrent attempts than our routes and the hook's own limit allow", async () => {
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

  test("rejects codes after ten failures in 15 minutes, from any addresses, and not before", async ({ db }) => {
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

  test("wrong codes that all pass through our own routes never reach the hook's limit", async ({ db }) => {
    const { id } = await createUser(db);
    for (let seconds = 0; seconds < 1_800; seconds += 45) {
      const begun = await begin(db, { action: "code", address: newAddress(), userId: id });
      if (begun.allowed) expect(await code(db, id, false)).toBe(true);
      await age(db, "45 seconds");
    }
  });

  test("does not count right codes as failures", async ({ db }) => {
    const { id } = await createUser(db);
    for (let made = 0; made < 50; made += 1) expect(await code(db, id, true)).toBe(true);
  });

  test("admits ten of 60 concurrent code attempts", async () => {
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

describe("password and MFA hooks", () => {
  test.for([password, mfa])("%s can be called by the identity backend only", async (hook, { db }) => {
    for (const role of ["anon", "authenticated", "gateway", "service_role"] as const)
      expect((await failureOf(() => db.asRole(role, () => db.query(`select private.${hook}('{}')`)))).code).toBe(
        "42501",
      );
  });
});
