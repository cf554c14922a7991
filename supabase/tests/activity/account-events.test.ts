import { randomBytes, randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { eventKinds } from "../../../remix-app/activity/event-kinds.ts";
import { failureOf } from "../actors.ts";
import { createUser, type Database, enrollFactor, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { createIdentity } from "../sign-in/oauth-fixtures.ts";

/** Creates an account that its owner has confirmed and used. */
async function createOwner(db: Database) {
  const user = await createUser(db);
  await db.query(
    `update auth.users set email_confirmed_at = now() - interval '1 day', last_sign_in_at = now() - interval '1 hour',
       encrypted_password = 'old' where id = $1`,
    [user.id],
  );
  await db.query("update public.profiles set created_at = now() - interval '1 day' where id = $1", [user.id]);
  await db.query("delete from public.security_events where user_id = $1", [user.id]);
  return user;
}

/** Creates a session as the backend does: first the session, then the claim with its sign-in method. */
async function startSession(
  db: Database,
  { userId, ip = "203.0.113.7", agent = "App/1.0 (iPhone; iOS 26.1)" }: { userId: string; ip?: string; agent?: string },
) {
  const id = randomUUID();
  await db.query(
    "insert into auth.sessions (id, user_id, aal, created_at, ip, user_agent) values ($1, $2, 'aal1', now(), $3, $4)",
    [id, userId, ip, agent],
  );
  await claim(db, { sessionId: id, method: "password" });
  return id;
}

const claim = (db: Database, { sessionId, method }: { sessionId: string; method: string }) =>
  db.query(
    `insert into auth.mfa_amr_claims (id, session_id, created_at, updated_at, authentication_method)
     values (gen_random_uuid(), $1, now(), now(), $2)
     on conflict (session_id, authentication_method) do update set updated_at = excluded.updated_at`,
    [sessionId, method],
  );

async function addPasskey(db: Database, userId: string) {
  const [id, credentialId] = [randomUUID(), randomBytes(24)];
  await db.query(
    `insert into auth.webauthn_credentials (id, user_id, credential_id, public_key, friendly_name, created_at)
     values ($1, $2, $3, $4, 'Phone', now())`,
    [id, userId, credentialId, randomBytes(8)],
  );
  return id;
}

const verify = (db: Database, factorId: string) =>
  db.query("update auth.mfa_factors set status = 'verified' where id = $1", [factorId]);

const announce = (db: Database, userId: string, target: string) =>
  db.query("select private.announce_addition($1, $2)", [userId, target]);

/** Returns an account's activity, with the recipients of the email about each event. */
const told = (db: Database, userId: string) =>
  db.query(
    `select e.kind, e.target_id as target, array(
       select m.recipient from private.outgoing_mails m where m.event_id = e.id order by m.recipient
     ) as mails
     from public.security_events e where e.user_id = $1 order by e.created_at, e.kind`,
    [userId],
  );

const unconfirmed = (db: Database, userId: string) =>
  db.query("select kind, target_id as target from private.unconfirmed_additions where user_id = $1", [userId]);

test("a kind of event has a notice if and only if it queues an email", async ({ db }) => {
  const kinds = Object.keys(eventKinds);
  const rows = await db.query<{ kind: string }>(
    "select kind from unnest($1::text[]) as kind where private.is_told_by_mail(kind)",
    [kinds],
  );
  const withNotice = Object.entries(eventKinds).filter(([, kind]) => "notice" in kind);
  expect(rows.map(({ kind }) => kind).sort()).toEqual(withNotice.map(([name]) => name).sort());
});

describe("a sign-in", () => {
  test("a sign-in with a password and TOTP is recorded as one event, with the method password and the session's IP address and user agent", async ({
    db,
  }) => {
    const { id: userId } = await createOwner(db);
    const sessionId = await startSession(db, { userId });
    await claim(db, { sessionId, method: "password" });
    await claim(db, { sessionId, method: "totp" });
    const events = await db.query(
      "select kind, method, session_id, host(ip) as ip, user_agent, device from public.security_events where user_id = $1",
      [userId],
    );
    expect(events).toEqual([
      {
        kind: "sign_in",
        method: "password",
        session_id: sessionId,
        ip: "203.0.113.7",
        user_agent: "App/1.0 (iPhone; iOS 26.1)",
        device: null,
      },
    ]);
  });

  test.for([
    ["the same phone", {}, 0],
    ["an updated app", { agent: "App/1.1 (iPhone; iOS 26.2)" }, 0],
    ["another phone", { agent: "App/1.0 (Android 17)" }, 1],
    ["another network", { ip: "198.51.100.4" }, 1],
  ] as const)(
    "a later sign-in from %s (%s) sends an email only if the device or network is new",
    async ([, place, mails], { db }) => {
      const { id: userId } = await createOwner(db);
      await startSession(db, { userId });
      expect(await told(db, userId)).toMatchObject([{ kind: "sign_in", mails: [] }]);
      await db.query("update public.security_events set created_at = now() - interval '1 hour' where user_id = $1", [
        userId,
      ]);
      await startSession(db, { userId, ...place });
      const [, second] = await told(db, userId);
      expect(second?.mails).toHaveLength(mails);
    },
  );

  test("a sign-in succeeds even if it can't be recorded", async ({ db }) => {
    const { id: userId } = await createOwner(db);
    await db.query("alter table public.security_events add constraint broken check (kind <> 'sign_in') not valid");
    await startSession(db, { userId });
    expect(await db.query("select from auth.sessions where user_id = $1", [userId])).toHaveLength(1);
    expect(await told(db, userId)).toEqual([]);
  });

  test("a sign-in that our server discards leaves no session, event or email", async ({ db }) => {
    const { id: userId } = await createOwner(db);
    await startSession(db, { userId });
    const sessionId = await startSession(db, { userId, ip: "198.51.100.4" });
    const discard = () =>
      db.asRole("service_role", () =>
        one(db, { sql: "select private.discard_session($1, $2) as done", values: [userId, sessionId] }),
      );
    expect(await discard()).toEqual({ done: true });
    expect(await discard()).toEqual({ done: false });
    expect(await told(db, userId)).toMatchObject([{ kind: "sign_in", mails: [] }]);
  });
});

describe("a sign-out", () => {
  // The statements of Supabase Auth v2.196, internal/models/sessions.go, as pgx sends them.
  test.for([
    ["DELETE FROM sessions WHERE id = $1", "local"],
    ['DELETE FROM "sessions" WHERE id != $1 AND user_id = $2', "others"],
    ["DELETE FROM sessions WHERE user_id = $1", "global"],
    ["delete from auth.sessions where id = '6f1c1b52-6e64-4b0a-9a39-0c5f3b8f7f11';", "local"],
    ["DELETE FROM sessions WHERE user_id = $1 AND aal < $2", null],
    ["DELETE FROM sessions WHERE user_id = $1 AND oauth_client_id = $2", null],
    ["delete from sessions where id in (select id from sessions where not_after < now() limit 10)", null],
    ["with pgrst_source as (select private.end_account_session($1, $2)) select 1", null],
  ] as const)("a sign-out by %s has the scope %s", async ([statement, scope], { db }) => {
    expect(await one(db, { sql: "select private.sign_out_scope($1) as scope", values: [statement] })).toEqual({
      scope,
    });
  });

  test.for([
    ["local", "delete from auth.sessions where id = $1", ["sign_out"], 0],
    ["others", "delete from auth.sessions where id != $1 and user_id = $2", ["other_sessions_revoked"], 1],
    ["global", "delete from auth.sessions where user_id = $2 and $1::uuid is not null", [], 0],
    ["clean-up", "delete from auth.sessions where user_id = $2 and aal < 'aal2' and $1::uuid is not null", [], 0],
  ] as const)("the events and emails about a sign-out match its scope: %s", async ([, sql, kinds, mails], { db }) => {
    const { id: userId } = await createOwner(db);
    const [first] = [await startSession(db, { userId }), await startSession(db, { userId })];
    await db.query("delete from public.security_events where user_id = $1", [userId]);
    await db.query(sql, sql.includes("$2") ? [first, userId] : [first]);
    const events = await told(db, userId);
    expect(events.map(({ kind }) => kind)).toEqual(kinds);
    expect(events.flatMap((event) => event.mails)).toHaveLength(mails);
  });

  test("signing out everywhere adds one event and queues one email", async ({ db }) => {
    const { id: userId } = await createOwner(db);
    for (let count = 0; count < 3; count += 1) await startSession(db, { userId });
    await db.query("delete from public.security_events where user_id = $1", [userId]);
    await db.query("delete from auth.sessions where user_id = $1", [userId]);
    expect(await told(db, userId)).toMatchObject([{ kind: "all_sessions_revoked", mails: [expect.any(String)] }]);
  });

  test("a sign-out caused by a new password adds no event of its own", async ({ db }) => {
    const { id: userId } = await createOwner(db);
    await startSession(db, { userId });
    await db.query("delete from public.security_events where user_id = $1", [userId]);
    await db.query("update auth.users set encrypted_password = 'new' where id = $1", [userId]);
    await db.query("delete from auth.sessions where user_id = $1", [userId]);
    expect((await told(db, userId)).map(({ kind }) => kind)).toEqual(["password_changed"]);
  });

  test("a sign-out caused by the account's deletion adds no event", async ({ db }) => {
    const { id: userId } = await createOwner(db);
    await startSession(db, { userId });
    await createIdentity(db, { userId, email: "other@example.test" });
    await db.query("delete from auth.users where id = $1", [userId]);
    expect(await told(db, userId)).toEqual([]);
  });
});

describe("a change to an account", () => {
  test.for([
    ["a new password", "encrypted_password = 'new'", ["password_changed"]],
    ["the same password", "encrypted_password = 'old'", []],
    ["a ban", "banned_until = now() + interval '1 day'", ["account_banned"]],
    ["an expired ban", "banned_until = now() - interval '1 day'", []],
    ["a pending email change", "email_change = 'new@example.test'", ["email_change_requested"]],
    ["an email that differs only in case", "email = upper(email)", []],
    ["a deletion", "deleted_at = now(), encrypted_password = 'x', email = 'gone@example.test'", []],
  ] as const)("an account change records the matching events: %s", async ([, change, kinds], { db }) => {
    const { id } = await createOwner(db);
    await db.query(`update auth.users set ${change} where id = $1`, [id]);
    expect((await told(db, id)).map(({ kind }) => kind)).toEqual(kinds);
  });

  test("setting an account's first password and ending a ban are recorded as events", async ({ db }) => {
    const { id } = await createOwner(db);
    await db.query("update auth.users set encrypted_password = null, banned_until = 'infinity' where id = $1", [id]);
    await db.query("delete from public.security_events where user_id = $1", [id]);
    await db.query("update auth.users set encrypted_password = 'new', banned_until = null where id = $1", [id]);
    expect((await told(db, id)).map(({ kind }) => kind)).toEqual(["account_unbanned", "password_added"]);
  });

  test("a change of the email address queues one email to each address", async ({ db }) => {
    const { id, email } = await createOwner(db);
    await db.query("update auth.users set email = 'new@example.test' where id = $1", [id]);
    expect(await told(db, id)).toEqual([
      { kind: "email_changed", target: null, mails: [email, "new@example.test"].sort() },
    ]);
  });

  test("an account that is created banned, such as an imported one, has no event of a ban", async ({ db }) => {
    const { id } = await createUser(db);
    await db.query("update auth.users set email_confirmed_at = now() where id = $1", [id]);
    await db.query("update auth.users set banned_until = now() + interval '1 day' where id = $1", [id]);
    expect(await told(db, id)).toEqual([]);
  });

  test("a change before the email address is confirmed adds no event", async ({ db }) => {
    const { id } = await createUser(db);
    await db.query("update auth.users set encrypted_password = 'a' where id = $1", [id]);
    await db.query("update auth.users set encrypted_password = 'b', email = 'b@example.test' where id = $1", [id]);
    expect(await told(db, id)).toEqual([]);
  });
});

describe("adding a way to sign in", () => {
  const additions = {
    authenticator: async (db: Database, userId: string) => {
      const factorId = await enrollFactor(db, { userId, status: "unverified" });
      return { target: factorId, add: () => verify(db, factorId) };
    },
    passkey: async (db: Database, userId: string) => {
      const [id, credentialId] = [randomUUID(), randomBytes(24)];
      const add = () =>
        db.query(
          `insert into auth.webauthn_credentials (id, user_id, credential_id, public_key, friendly_name, created_at)
           values ($1, $2, $3, $4, 'Phone', now())`,
          [id, userId, credentialId, randomBytes(8)],
        );
      return { target: credentialId.toString("hex"), add };
    },
  };

  for (const kind of ["authenticator", "passkey"] as const) {
    test(`an added ${kind} that our server didn't announce to the database beforehand stays unconfirmed, and the owner is emailed`, async ({
      db,
    }) => {
      const { id: userId, email } = await createOwner(db);
      await (await additions[kind](db, userId)).add();
      const [event] = await told(db, userId);
      expect(event).toEqual({ kind: `${kind}_added`, target: expect.any(String), mails: [email] });
      expect(await unconfirmed(db, userId)).toEqual([{ kind, target: event?.target }]);
    });

    test(`the owner is emailed about an added ${kind} that our server announced to the database beforehand`, async ({
      db,
    }) => {
      const { id: userId } = await createOwner(db);
      const { target, add } = await additions[kind](db, userId);
      await announce(db, userId, target);
      await add();
      expect((await told(db, userId)).map((event) => event.kind)).toEqual([`${kind}_added`]);
      expect(await unconfirmed(db, userId)).toEqual([]);
    });

    test(`refuses an added ${kind} for an account with a second factor unless our server announced it to the database beforehand`, async ({
      db,
    }) => {
      const { id: userId } = await createOwner(db);
      await enrollFactor(db, { userId });
      const { target, add } = await additions[kind](db, userId);
      await announce(db, (await createOwner(db)).id, target);
      await db.query("savepoint before");
      expect((await failureOf(add)).code).toBe("42501");
      await db.query("rollback to savepoint before");
      await announce(db, userId, target);
      await db.query("update private.announced_additions set expires_at = now() where user_id = $1", [userId]);
      await db.query("savepoint expired");
      expect((await failureOf(add)).code).toBe("42501");
      await db.query("rollback to savepoint expired");
      await announce(db, userId, target);
      await add();
      expect((await told(db, userId)).map((event) => event.kind)).toEqual([`${kind}_added`]);
    });
  }

  test("adding an identity with the account's own verified address sends an email and confirms the identity", async ({
    db,
  }) => {
    const { id: userId, email } = await createOwner(db);
    await enrollFactor(db, { userId });
    const target = await createIdentity(db, { userId, email });
    expect(await told(db, userId)).toEqual([{ kind: "identity_linked", target, mails: [email] }]);
    expect(await unconfirmed(db, userId)).toEqual([]);
  });

  test("adding an identity with another address sends an email and leaves the identity unconfirmed, or is refused if the account has a second factor", async ({
    db,
  }) => {
    const { id: userId, email } = await createOwner(db);
    const target = await createIdentity(db, { userId, email: "other@example.test" });
    expect(await told(db, userId)).toEqual([{ kind: "identity_linked", target, mails: [email] }]);
    expect(await unconfirmed(db, userId)).toEqual([{ kind: "identity", target }]);
    await enrollFactor(db, { userId });
    const link = () => createIdentity(db, { userId, email: "third@example.test", provider: "github" });
    expect((await failureOf(link)).code).toBe("42501");
  });

  test("security events keep only the first 120 characters of an authenticator's name", async ({ db }) => {
    const { id: userId } = await createOwner(db);
    const factorId = await enrollFactor(db, { userId, status: "unverified" });
    await db.query("update auth.mfa_factors set friendly_name = repeat('n', 100000) where id = $1", [factorId]);
    await verify(db, factorId);
    await db.query("delete from auth.mfa_factors where id = $1", [factorId]);
    const events = await db.query<{ details: { name: string } }>(
      "select details from public.security_events where user_id = $1 and kind like 'authenticator%'",
      [userId],
    );
    expect(events.map(({ details }) => details.name.length)).toEqual([120, 120]);
  });

  test("if our server announces that a way to sign in will be added, only one of 50 concurrent callers can use the announcement", async () => {
    const { db, close } = openPool(20);
    const user = await createUser(db);
    try {
      await announce(db, user.id, "target");
      const taken = await Promise.all(
        Array.from({ length: 50 }, () =>
          one<{ taken: boolean }>(db, {
            sql: "select private.is_announced($1, 'target') as taken",
            values: [user.id],
          }),
        ),
      );
      expect(taken.filter((answer) => answer.taken)).toHaveLength(1);
    } finally {
      await db.query("delete from auth.users where id = $1", [user.id]);
      await close();
    }
  });
});

describe("removing a way to sign in", () => {
  test("removing an authenticator, a passkey and an identity queues one email each", async ({ db }) => {
    const { id: userId, email } = await createOwner(db);
    const factor = await enrollFactor(db, { userId });
    const unfinished = await enrollFactor(db, { userId, status: "unverified" });
    await db.query("delete from auth.mfa_factors where id in ($1, $2)", [factor, unfinished]);
    const passkeyId = await addPasskey(db, userId);
    const identity = await createIdentity(db, { userId, email: "other@example.test" });
    await db.query("delete from auth.webauthn_credentials where id = $1", [passkeyId]);
    await db.query("delete from auth.identities where id = $1", [identity]);
    expect(await unconfirmed(db, userId)).toEqual([]);
    const removed = (await told(db, userId)).filter(({ kind }) => /removed|unlinked/.test(kind));
    expect(removed).toEqual([
      { kind: "authenticator_removed", target: factor, mails: [email] },
      { kind: "identity_unlinked", target: identity, mails: [email] },
      { kind: "passkey_removed", target: passkeyId, mails: [email] },
    ]);
  });

  test("removing factors during a recovery adds no event of its own", async ({ db }) => {
    const { id: userId } = await createOwner(db);
    await enrollFactor(db, { userId });
    const policy = {
      version: 1,
      required: true,
      boundary: 0,
      primaryBoundary: null,
      recovery: "in_progress",
      generation: 1,
    };
    await db.query("select set_config('gatehouse.required_mfa_writer', 'on', true)");
    await db.query("update auth.users set raw_app_meta_data = $2 where id = $1", [
      userId,
      JSON.stringify({ platform_required_mfa: policy }),
    ]);
    await db.query("delete from auth.mfa_factors where user_id = $1", [userId]);
    expect(await told(db, userId)).toEqual([]);
  });
});

describe("the description that our server adds to an event", () => {
  const describeEvent = (db: Database, event: object) =>
    db.asRole("service_role", () =>
      db.query("select private.record_security_event($1)", [
        JSON.stringify({ ip: "198.51.100.4", userAgent: "Browser", device: "Chrome on macOS", ...event }),
      ]),
    );
  const dueMails = (db: Database, recipient: string) =>
    db.query("select from private.outgoing_mails where recipient = $1 and next_attempt_at <= now()", [recipient]);

  test("an event that a trigger added is completed by our server only once, and its email is then due", async ({
    db,
  }) => {
    const { id: userId, email } = await createOwner(db);
    await db.query("update auth.users set encrypted_password = 'new' where id = $1", [userId]);
    expect(await dueMails(db, email)).toHaveLength(0);
    await describeEvent(db, { userId, kind: "password_changed" });
    expect(await dueMails(db, email)).toHaveLength(1);
    expect(await told(db, userId)).toHaveLength(1);
    await describeEvent(db, { userId, kind: "password_changed" });
    expect(await told(db, userId)).toHaveLength(2);
  });

  test("a sign-in's details from our server update only that session's event, and cancel its email if they match an earlier sign-in", async ({
    db,
  }) => {
    const { id: userId } = await createOwner(db);
    await startSession(db, { userId, ip: "198.51.100.4", agent: "Browser" });
    const sessionId = await startSession(db, { userId, agent: "node" });
    expect((await told(db, userId)).flatMap(({ mails }) => mails)).toHaveLength(1);
    await describeEvent(db, { userId, kind: "sign_in", method: "passkey", sessionId });
    expect((await told(db, userId)).flatMap(({ mails }) => mails)).toEqual([]);
    const rows = await db.query("select method, device from public.security_events where session_id = $1", [sessionId]);
    expect(rows).toEqual([{ method: "passkey", device: "Chrome on macOS" }]);
  });

  test("our server can mark a sign-in as an account recovery, and the owner is emailed about it", async ({ db }) => {
    const { id: userId, email } = await createOwner(db);
    const sessionId = await startSession(db, { userId });
    await describeEvent(db, { userId, kind: "account_recovered", sessionId });
    expect(await told(db, userId)).toMatchObject([{ kind: "account_recovered", mails: [email] }]);
  });

  test("describing an event that is more than two minutes old adds a new event", async ({ db }) => {
    const { id: userId } = await createOwner(db);
    await db.query("update auth.users set encrypted_password = 'new' where id = $1", [userId]);
    await db.query("update public.security_events set created_at = now() - interval '121 seconds' where user_id = $1", [
      userId,
    ]);
    await describeEvent(db, { userId, kind: "password_changed" });
    expect(await told(db, userId)).toHaveLength(2);
  });
});
