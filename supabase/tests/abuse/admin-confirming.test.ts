import { describe, expect } from "vitest";
import { newAddress } from "../../../remix-app/testing/visitor.ts";
import { createUser, type Database, enrollFactor, signIn, test } from "../database.ts";
import { type Attempt, admitted, begin, settle } from "./attempt-fixtures.ts";

async function block(db: Database, address: string): Promise<void> {
  await db.query(
    `insert into private.address_blocks (address, action, level, blocked_until)
     values (private.address_network($1), 'password', 1, now() + interval '15 minutes')`,
    [address],
  );
}

/** Creates an account with a session that has proved its second factor. */
async function createProven(db: Database, { table }: { table: "infrastructure_admins" | "finance_people" | null }) {
  const { id: userId } = await createUser(db);
  if (table) await db.query(`insert into private.${table} (user_id, reason) values ($1, 'test')`, [userId]);
  const { session_id: sessionId } = await signIn(db, { userId, factorId: await enrollFactor(db, { userId }) });
  return { userId, sessionId };
}

/** Creates an admin who enters a code in a proven session, from a blocked address. */
async function setting(db: Database): Promise<Attempt & { userId: string; sessionId: string }> {
  const address = newAddress();
  await block(db, address);
  return { action: "code", address, ...(await createProven(db, { table: "infrastructure_admins" })) };
}

const blocked = { allowed: false, reason: "blocked" };

describe("an admin at a blocked address", () => {
  test("can enter a code of the second factor in a session that has proved it", async ({ db }) => {
    const attempt = await setting(db);
    expect(await settle(db, await admitted(db, attempt), "succeeded")).toBe(true);
    await db.asRole("service_role", () => admitted(db, attempt));
  });

  test("can enter a code after others have used up the address's codes", async ({ db }) => {
    const attempt = await setting(db);
    const { address } = attempt;
    await db.query("delete from private.address_blocks where address = private.address_network($1)", [address]);
    const other = { action: "code", address };
    for (let made = 0; made < 60; made += 1) await admitted(db, other);
    expect(await begin(db, other)).toMatchObject({ allowed: false, reason: "limited" });
    await admitted(db, attempt);
    expect(await begin(db, { ...attempt, sessionId: crypto.randomUUID() })).toMatchObject({ reason: "limited" });
  });

  test("stays subject to the account's limits, and wrong codes count against the address", async ({ db }) => {
    const attempt = await setting(db);
    const failures = async () => {
      const [row] = await db.query<{ failures: number }>(
        `select round(extract(epoch from r.full_at - now()) / extract(epoch from b.step))::integer as failures
         from private.attempt_buckets('failure', null, private.address_network($1)) b
         join private.rate_limits r on r.subject = b.subject`,
        [attempt.address],
      );
      return row?.failures ?? 0;
    };
    for (let wrong = 1; wrong <= 5; wrong += 1) {
      await settle(db, await admitted(db, attempt), "failed");
      expect(await failures()).toBe(wrong);
    }
    expect(await begin(db, attempt)).toEqual({ allowed: false, reason: "limited", retryAfterSeconds: 180 });
    expect(await failures()).toBe(6);
  });

  test.for(["password", "passkey", "mail", "credential", "sign_in_code"])(
    "is blocked in an attempt of kind %s",
    async (action, { db }) => {
      expect(await begin(db, { ...(await setting(db)), action })).toMatchObject(blocked);
    },
  );

  test("is blocked without a session, and in one that is unknown, at AAL1, expired, ended or of another account", async ({
    db,
  }) => {
    const attempt = await setting(db);
    const { sessionId, ...withoutSession } = attempt;
    expect(await begin(db, withoutSession)).toMatchObject(blocked);
    for (const unknown of [crypto.randomUUID(), "none"])
      expect(await begin(db, { ...attempt, sessionId: unknown })).toMatchObject(blocked);
    const { session_id: unproven } = await signIn(db, { userId: attempt.userId });
    expect(await begin(db, { ...attempt, sessionId: unproven })).toMatchObject(blocked);
    const other = await createProven(db, { table: "infrastructure_admins" });
    expect(await begin(db, { ...attempt, sessionId: other.sessionId })).toMatchObject(blocked);
    expect(await begin(db, { ...attempt, userId: other.userId })).toMatchObject(blocked);
    const expire = (time: string) =>
      db.query("update auth.sessions set not_after = now() + $2::interval where id = $1", [sessionId, time]);
    await expire("1 second");
    await admitted(db, attempt);
    await expire("0");
    expect(await begin(db, attempt)).toMatchObject(blocked);
    await db.query("delete from auth.sessions where id = $1", [sessionId]);
    expect(await begin(db, attempt)).toMatchObject(blocked);
  });

  test("is blocked once the role is withdrawn, like finance people and everybody else", async ({ db }) => {
    const attempt = await setting(db);
    for (const table of ["finance_people", null] as const)
      expect(await begin(db, { ...attempt, ...(await createProven(db, { table })) })).toMatchObject(blocked);
    await db.query("delete from private.infrastructure_admins where user_id = $1", [attempt.userId]);
    expect(await begin(db, attempt)).toMatchObject(blocked);
  });
});
