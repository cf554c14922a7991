import { describe, expect } from "vitest";
import { createActor, failureOf } from "../actors.ts";
import { createUser, type Database, one, test } from "../database.ts";

type Answer = { id: string; createdAt: string } | null;

const firefox = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:150.0) Gecko/20100101 Firefox/150.0";
const chrome =
  "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36";
const laptop = { ip: "203.0.113.7", device: "Chrome on macOS", userAgent: chrome };

/** Returns the recipients of an event's emails. Leaves out emails that are not due yet. */
const recipientsOf = async (db: Database, answer: Answer) =>
  (
    await db.query<{ recipient: string }>(
      "select recipient from private.outgoing_mails where event_id = $1 and next_attempt_at <= now()",
      [answer?.id],
    )
  ).map(({ recipient }) => recipient);

async function record(db: Database, event: Record<string, unknown>): Promise<Answer> {
  const row = await db.asRole("service_role", () =>
    one<{ answer: Answer }>(db, {
      sql: "select private.record_security_event($1) as answer",
      values: [JSON.stringify({ kind: "sign_in", ...laptop, ...event })],
    }),
  );
  return row.answer;
}

describe("record_security_event", () => {
  test("records a security event with every field, at the database's time, and queues the email to the owner", async ({
    db,
  }) => {
    const { id: userId, email } = await createUser(db);
    const sessionId = "0b9dbb1c-5a0c-4f7e-8f0f-0f8b62a2d7aa";
    const answer = await record(db, {
      userId,
      kind: "passkey_added",
      method: "passkey",
      sessionId,
      place: "Porto, Portugal",
      details: { name: "x" },
    });
    expect(await recipientsOf(db, answer)).toEqual([email]);
    const row = await one(db, {
      sql: `select kind, method, session_id, host(ip) as ip, user_agent, device, place, details, created_at = now() as stamped
            from public.security_events where id = $1 and user_id = $2`,
      values: [answer?.id, userId],
    });
    expect(row).toEqual({
      kind: "passkey_added",
      method: "passkey",
      session_id: sessionId,
      ip: laptop.ip,
      user_agent: laptop.userAgent,
      device: laptop.device,
      place: "Porto, Portugal",
      details: { name: "x" },
      stamped: true,
    });
  });

  test("sends no new-location email for the first sign-in or for later sign-ins from the same location", async ({
    db,
  }) => {
    const { id: userId } = await createUser(db);
    for (let visit = 0; visit < 3; visit += 1)
      expect(await recipientsOf(db, await record(db, { userId }))).toHaveLength(0);
  });

  test.for([
    ["another browser", { userAgent: firefox }, true],
    ["another address", { ip: "203.0.113.8" }, true],
    ["a newer version of the same browser", { userAgent: chrome.replaceAll("150.0", "151.2") }, false],
    ["another kind of event", { kind: "mfa_approved", userAgent: firefox }, false],
  ] as const)("after a sign-in, %s causes a new-location email: %s", async ([, change, expected], { db }) => {
    const { id: userId } = await createUser(db);
    await record(db, { userId });
    expect(await recipientsOf(db, await record(db, { userId, ...change }))).toHaveLength(Number(expected));
    expect(await recipientsOf(db, await record(db, { userId, ...change }))).toHaveLength(0);
  });

  test.for([
    ["2001:db8:1:2::1", "2001:db8:1:2:ffff::9", false],
    ["2001:db8:1:2::1", "2001:db8:1:3::1", true],
    ["203.0.113.7", "::ffff:203.0.113.7", true],
  ] as const)(
    "after a sign-in from %s, a sign-in from %s causes a new-location email: %s",
    async ([before, after, expected], { db }) => {
      const { id: userId } = await createUser(db);
      await record(db, { userId, ip: before });
      expect(await recipientsOf(db, await record(db, { userId, ip: after }))).toHaveLength(Number(expected));
    },
  );

  test("a recovery from a new location sends only one email", async ({ db }) => {
    const { id: userId } = await createUser(db);
    await record(db, { userId });
    const visit = { userId, sessionId: "0b9dbb1c-5a0c-4f7e-8f0f-0f8b62a2d7aa", userAgent: firefox };
    expect(await recipientsOf(db, await record(db, { ...visit, kind: "account_recovered" }))).toHaveLength(1);
    expect(await recipientsOf(db, await record(db, { ...visit, method: "recovery" }))).toEqual([]);
  });

  test("a location is new if its network and browser were used before, but never together", async ({ db }) => {
    const { id: userId } = await createUser(db);
    await record(db, { userId });
    await record(db, { userId, ip: "198.51.100.1", userAgent: firefox });
    expect(await recipientsOf(db, await record(db, { userId, ip: "198.51.100.1" }))).toHaveLength(1);
  });

  test("another account's sign-ins don't make a location known", async ({ db }) => {
    const [{ id: userId }, other] = [await createUser(db), await createUser(db)];
    await record(db, { userId });
    await record(db, { userId: other.id, userAgent: firefox });
    expect(await recipientsOf(db, await record(db, { userId, userAgent: firefox }))).toHaveLength(1);
  });

  test("record_security_event returns null for an account that does not exist", async ({ db }) => {
    expect(await record(db, { userId: "6f1c1b52-6e64-4b0a-9a39-0c5f3b8f7f11" })).toBe(null);
  });

  test("queues no email for an account without an email address", async ({ db }) => {
    const { id: userId } = await createUser(db);
    await db.query("update auth.users set email = null where id = $1", [userId]);
    expect(await recipientsOf(db, await record(db, { userId, kind: "password_changed" }))).toEqual([]);
  });

  test.for(["anon", "gateway"] as const)("record_security_event can't be called by %s", async (role, { db }) => {
    const call = () => db.asRole(role, () => db.query("select private.record_security_event('{}')"));
    expect((await failureOf(call)).code).toBe("42501");
  });

  test("an account can't record its own security events", async ({ db }) => {
    const claims = await createActor(db, {});
    const call = () => db.asUser(claims, () => db.query("select private.record_security_event('{}')"));
    expect((await failureOf(call)).code).toBe("42501");
  });
});
