import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, failureOf } from "../actors.ts";
import { type Claims, createUser, type Database, signIn, test } from "../database.ts";

type Row = {
  id: string;
  ip: string | null;
  user_agent: string | null;
  device: string | null;
  place: string | null;
  method: string | null;
  aal: string;
};

const sessionsOf = (db: Database, userId: string) =>
  db.asRole("service_role", () => db.query<Row>("select * from private.account_sessions($1)", [userId]));
const end = (db: Database, userId: string, sessionId: string) =>
  db.asRole("service_role", async () => {
    const [row] = await db.query<{ ended: boolean }>("select private.end_account_session($1, $2) as ended", [
      userId,
      sessionId,
    ]);
    return row?.ended;
  });

describe("account_sessions", () => {
  test("lists the account's sessions, most recently seen first, with the details of their sign-in", async ({ db }) => {
    const { id: userId } = await createUser(db);
    const [web, phone] = [await signIn(db, { userId }), await signIn(db, { userId })];
    await createActor(db, {});
    await db.query("update auth.sessions set user_agent = 'node', ip = '203.0.113.7' where id = $1", [web.session_id]);
    await db.query(
      `update auth.sessions set user_agent = 'Phone/1', created_at = now() - interval '3 days',
         refreshed_at = (now() + interval '1 hour') at time zone 'UTC' where id = $1`,
      [phone.session_id],
    );
    await db.query(
      `insert into public.security_events (user_id, kind, method, session_id, user_agent, device, place)
       values ($1, 'sign_in', 'passkey', $2, 'Mozilla/5.0', 'Chrome on macOS', 'Porto, Portugal'),
              ($1, 'password_changed', null, $2, 'Other/1', 'Other', 'Lisbon, Portugal')`,
      [userId, web.session_id],
    );
    expect(await sessionsOf(db, userId)).toMatchObject([
      { id: phone.session_id, user_agent: "Phone/1", device: null, place: null, method: null, aal: "aal1" },
      {
        id: web.session_id,
        user_agent: "Mozilla/5.0",
        device: "Chrome on macOS",
        place: "Porto, Portugal",
        method: "passkey",
        ip: "203.0.113.7",
      },
    ]);
  });

  test("account_sessions ignores another account's event about the same session", async ({ db }) => {
    const [{ id: userId }, other] = [await createUser(db), await createUser(db)];
    const { session_id } = await signIn(db, { userId });
    await db.query(
      "insert into public.security_events (user_id, kind, session_id, device) values ($1, 'sign_in', $2, 'Forged')",
      [other.id, session_id],
    );
    expect(await sessionsOf(db, userId)).toMatchObject([{ id: session_id, device: null }]);
  });

  test.for([
    ["1 second", 1],
    ["-1 second", 0],
  ] as const)(
    "account_sessions omits sessions that have ended: a session that ends in %s is listed %s times",
    async ([left, count], { db }) => {
      const { id: userId } = await createUser(db);
      const { session_id } = await signIn(db, { userId });
      await db.query("update auth.sessions set not_after = now() + $2::interval where id = $1", [session_id, left]);
      expect(await sessionsOf(db, userId)).toHaveLength(count);
    },
  );
});

/** Creates the given number of sessions for an account, each refreshed a minute before the previous one. */
const signInOften = (db: Database, userId: string, times: number) =>
  db.query(
    `insert into auth.sessions (id, user_id, created_at, updated_at, refreshed_at, aal)
     select gen_random_uuid(), $1, now() - interval '9 days', now(), (now() - n * interval '1 minute') at time zone 'UTC', 'aal1'
     from generate_series(1, $2::integer) as n`,
    [userId, times],
  );

describe("a page of account_sessions", () => {
  test("the first page of sessions begins with the given session, and the next pages list each other session once", async ({
    db,
  }) => {
    const { id: userId } = await createUser(db);
    const { session_id: asking } = await signIn(db, { userId });
    await signInOften(db, userId, 6);
    await db.query("update auth.sessions set created_at = now() - interval '20 days' where id = $1", [asking]);
    const page = async (before: object | null) =>
      db.query<{ id: string; refreshed_at: string }>(
        "select id, refreshed_at::text from private.account_sessions($1, $2, $3, 3)",
        [userId, asking, before],
      );
    const [first, rest] = [await page(null), await page({ createdAt: "9999-12-31T23:59:59Z", id: userId })];
    expect(first).toHaveLength(3);
    expect(first[0]?.id).toBe(asking);
    expect(first.slice(1)).toEqual(rest.slice(0, 2));
    const seen = [...first];
    for (let last = seen.at(-1); last; ) {
      const next = await page({ createdAt: last.refreshed_at, id: last.id });
      seen.push(...next);
      last = next.length === 3 ? next.at(-1) : undefined;
    }
    expect(new Set(seen.map(({ id }) => id)).size).toBe(7);
    expect(seen).toHaveLength(7);
  });

  test.for([
    [1000, 1000],
    [1001, 1001],
    [1002, 1001],
  ] as const)(
    "counts an account's sessions up to 1,001: %d sessions are counted as %d",
    async ([times, counted], { db }) => {
      const { id: userId } = await createUser(db);
      await signInOften(db, userId, times);
      const [row] = await db.query("select private.count_account_sessions($1)::integer as count", [userId]);
      expect(row).toEqual({ count: counted });
    },
  );
});

describe("end_account_session", () => {
  test("end_account_session ends only the given session, only once, together with its refresh tokens", async ({
    db,
  }) => {
    const { id: userId } = await createUser(db);
    const [kept, ended] = [await signIn(db, { userId }), await signIn(db, { userId })];
    await db.query("insert into auth.refresh_tokens (token, user_id, session_id, revoked) values ($1, $2, $3, false)", [
      randomUUID(),
      userId,
      ended.session_id,
    ]);
    expect(await end(db, userId, ended.session_id)).toBe(true);
    expect(await end(db, userId, ended.session_id)).toBe(false);
    expect(await sessionsOf(db, userId)).toMatchObject([{ id: kept.session_id }]);
    expect(await db.query("select from auth.refresh_tokens where session_id = $1", [ended.session_id])).toEqual([]);
  });

  test("end_account_session does not end another account's session", async ({ db }) => {
    const [{ id: userId }, other] = [await createUser(db), await createUser(db)];
    const theirs = await signIn(db, { userId: other.id });
    expect(await end(db, userId, theirs.session_id)).toBe(false);
    expect(await sessionsOf(db, other.id)).toHaveLength(1);
  });
});

const calls = [
  "private.account_sessions(gen_random_uuid())",
  "private.count_account_sessions(gen_random_uuid())",
  "private.access_state(gen_random_uuid(), gen_random_uuid())",
  "private.end_account_session(gen_random_uuid(), gen_random_uuid())",
  "private.pending_email_change(gen_random_uuid())",
  "private.email_change_of_link('x')",
  "private.cancel_email_change(gen_random_uuid())",
];

test.for(calls)("%s can't be called by users, anon or the gateway", async (call, { db }) => {
  const claims: Claims = await createActor(db, {});
  const run = () => db.query(`select ${call}`);
  for (const role of ["anon", "gateway"] as const)
    expect((await failureOf(() => db.asRole(role, run))).code).toBe("42501");
  expect((await failureOf(() => db.asUser(claims, run))).code).toBe("42501");
});
