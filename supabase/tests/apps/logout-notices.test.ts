import { describe, expect } from "vitest";
import { createActor } from "../actors.ts";
import { type Claims, type Database, enrollFactor, one, signIn, test } from "../database.ts";
import { call, newHash, openAppSession, refreshSession, revoke, setPolicy } from "./fixtures.ts";
import {
  openClientLogin,
  openSatelliteLogin,
  queuedLogouts,
  registerClient,
  registerSatellite,
} from "./logout-fixtures.ts";

type Scene = Awaited<ReturnType<typeof scene>>;

/** Creates a person at AAL2 with logins at a satellite, at a client, and at a client on a device. */
async function scene(db: Database) {
  const claims = await createActor(db, { mfa: "required, at AAL2" });
  const [satellite, client] = [await registerSatellite(db), await registerClient(db)];
  return {
    claims,
    userId: claims.sub,
    satellite,
    client,
    satelliteLogin: await openSatelliteLogin(db, { claims, app: satellite }),
    clientLogin: await openClientLogin(db, { claims, app: client }),
    deviceLogin: await openClientLogin(db, { claims, app: client, fromDevice: true }),
  };
}

const browserLogins = ({ satelliteLogin, clientLogin }: Scene) => [satelliteLogin, clientLogin].sort();
const allLogins = (all: Scene) => [...browserLogins(all), all.deviceLogin].sort();
const factorOf = async (db: Database, { session_id }: Claims) =>
  (
    await one<{ id: string }>(db, {
      sql: "select factor_id as id from auth.sessions where id = $1",
      values: [session_id],
    })
  ).id;

describe("queued logout notices", () => {
  test.for<[string, (db: Database, all: Scene) => Promise<unknown>, (all: Scene) => string[]]>([
    [
      "by a sign-out, for that browser's logins",
      (db, { claims }) => db.query("delete from auth.sessions where id = $1", [claims.session_id]),
      browserLogins,
    ],
    [
      "by the clean-up of an expired session",
      async (db, { claims }) => {
        await db.query("update auth.sessions set not_after = now() - interval '1 hour' where id = $1", [
          claims.session_id,
        ]);
        await db.query("delete from auth.sessions where not_after < now()");
      },
      browserLogins,
    ],
    [
      "by signing out everywhere",
      (db, { userId }) => call(db, "sign_out_everywhere", { subject_id: userId, actor_session_id: null }),
      allLogins,
    ],
    [
      "by a password change",
      (db, { userId }) => db.query("update auth.users set encrypted_password = 'new' where id = $1", [userId]),
      allLogins,
    ],
    [
      "by a ban",
      (db, { userId }) =>
        db.query("update auth.users set banned_until = now() + interval '1 day' where id = $1", [userId]),
      allLogins,
    ],
    [
      "by the factor's removal, for all logins that it verified",
      async (db, { claims }) => db.query("delete from auth.mfa_factors where id = $1", [await factorOf(db, claims)]),
      allLogins,
    ],
    [
      "by unverifying the factor",
      async (db, { claims }) =>
        db.query("update auth.mfa_factors set status = 'unverified' where id = $1", [await factorOf(db, claims)]),
      allLogins,
    ],
    [
      "by a new boundary in the MFA policy",
      (db, { userId }) =>
        setPolicy(db, { userId, policy: { required: true, boundary: Math.floor(Date.now() / 1000), generation: 2 } }),
      allLogins,
    ],
    [
      "by the account's deletion",
      (db, { userId }) => call(db, "delete_account", { subject_id: userId, request_id: "request-1" }),
      allLogins,
    ],
    [
      "by a deletion at the identity backend",
      (db, { userId }) => db.query("delete from auth.users where id = $1", [userId]),
      allLogins,
    ],
    [
      "by a soft deletion at the identity backend",
      (db, { userId }) => db.query("update auth.users set deleted_at = now() where id = $1", [userId]),
      allLogins,
    ],
    [
      "by disconnecting the app",
      (db, { userId, client }) =>
        call(db, "disconnect_app", { subject_id: userId, app_name: client.name, event: { kind: "app_disconnected" } }),
      ({ clientLogin, deviceLogin }) => [clientLogin, deviceLogin].sort(),
    ],
    [
      "by disabling the app",
      (db, { satellite }) => db.query("update private.apps set enabled = false where id = $1", [satellite.id]),
      ({ satelliteLogin }) => [satelliteLogin],
    ],
  ])("a logout notice is queued %s", async ([, end, expected], { db }) => {
    const all = await scene(db);
    await end(db, all);
    expect(await queuedLogouts(db, all.userId)).toEqual(expected(all));
  });

  test("queues only one logout notice per login, even if several changes would end it", async ({ db }) => {
    const all = await scene(db);
    const { claims, userId } = all;
    await db.query("delete from auth.sessions where id = $1", [claims.session_id]);
    await db.query("delete from auth.mfa_factors where user_id = $1", [userId]);
    await setPolicy(db, { userId, policy: { required: false, boundary: 0, generation: 2 } });
    await db.query("update auth.users set encrypted_password = 'new' where id = $1", [userId]);
    await db.query("delete from auth.users where id = $1", [userId]);
    expect(await queuedLogouts(db, userId)).toEqual(allLogins(all));
  });

  test("ending a session queues logout notices only for logins of that session", async ({ db }) => {
    const { claims, satellite, client } = await scene(db);
    const elsewhere = await signIn(db, { userId: claims.sub, factorId: await factorOf(db, claims) });
    const theirs = [
      await openSatelliteLogin(db, { claims: elsewhere, app: satellite }),
      await openClientLogin(db, { claims: elsewhere, app: client }),
    ];
    await db.query("delete from auth.sessions where id = $1", [elsewhere.session_id]);
    expect(await queuedLogouts(db, claims.sub)).toEqual(theirs.sort());
  });

  test("queues no logout notices for other accounts' logins", async ({ db }) => {
    const [mine, other] = [await scene(db), await scene(db)];
    await db.query("delete from auth.users where id = $1", [mine.userId]);
    expect(await queuedLogouts(db, other.userId)).toEqual([]);
  });
});

describe("changes that queue no logout notice", () => {
  test.for<[string, (db: Database, all: Scene) => Promise<unknown>]>([
    [
      "when another factor is removed",
      async (db, { userId }) =>
        db.query("delete from auth.mfa_factors where id = $1", [await enrollFactor(db, { userId })]),
    ],
    [
      "when an unverified factor is removed",
      async (db, { userId }) =>
        db.query("delete from auth.mfa_factors where id = $1", [
          await enrollFactor(db, { userId, status: "unverified" }),
        ]),
    ],
    [
      "when another session ends",
      async (db, { userId }) =>
        db.query("delete from auth.sessions where id = $1", [(await signIn(db, { userId })).session_id]),
    ],
    [
      "when the identity backend writes back an older policy",
      (db, { userId }) =>
        db.query(
          "update auth.users set raw_app_meta_data = raw_app_meta_data - 'platform_required_mfa' where id = $1",
          [userId],
        ),
    ],
    [
      "when other metadata changes",
      (db, { userId }) =>
        db.query(
          `update auth.users set raw_app_meta_data = raw_app_meta_data || '{"provider":"email"}' where id = $1`,
          [userId],
        ),
    ],
    [
      "when the app has not registered a URL",
      async (db, { claims, satellite, client }) => {
        await db.query("update private.apps set backchannel_logout_uri = null where id = any ($1)", [
          [satellite.id, client.id],
        ]);
        await db.query("delete from auth.sessions where id = $1", [claims.session_id]);
      },
    ],
    [
      "when the client itself revokes its refresh token",
      async (db, { claims, client }) => {
        const tokenHash = newHash();
        await openClientLogin(db, { claims, app: client, tokenHash });
        await call(db, "revoke_openid_token", {
          client_id: client.name,
          secret_hash: client.secretHash,
          token_hash: tokenHash,
        });
      },
    ],
    [
      "when the satellite itself signs the person out",
      async (db, { claims, satellite }) => {
        const { appHash } = await openAppSession(db, { claims, app: satellite });
        await revoke(db, { app: satellite, hash: appHash });
      },
    ],
    [
      "when the satellite refreshes its session",
      async (db, { claims, satellite }) => {
        const { appHash } = await openAppSession(db, { claims, app: satellite });
        await refreshSession(db, { app: satellite, hash: appHash, successor: newHash() });
      },
    ],
  ])("queues no logout notice %s", async ([, change], { db }) => {
    const all = await scene(db);
    await change(db, all);
    expect(await queuedLogouts(db, all.userId)).toEqual([]);
  });

  test("from the exact moment when a login expires, no logout notice is queued for it", async ({ db }) => {
    const { claims, userId, satelliteLogin, clientLogin, deviceLogin } = await scene(db);
    const expire = (end: string) =>
      db.query(
        `with session as (update private.app_sessions set expires_at = ${end} where user_id = $1)
         update private.openid_grants set created_at = now() - interval '1 day', ends_at = ${end} where user_id = $1`,
        [userId],
      );
    await expire("now()");
    await db.query("savepoint before");
    await db.query("delete from auth.users where id = $1", [userId]);
    expect(await queuedLogouts(db, userId)).toEqual([]);
    await db.query("rollback to savepoint before");
    await expire("now() + interval '1 microsecond'");
    await db.query("delete from auth.users where id = $1", [claims.sub]);
    expect(await queuedLogouts(db, userId)).toEqual([satelliteLogin, clientLogin, deviceLogin].sort());
  });

  test("queues no second logout notice for a login that was revoked before its session ended", async ({ db }) => {
    const { claims, userId, client, clientLogin, deviceLogin } = await scene(db);
    await db.query("update private.openid_grants set revoked_at = now() where app_id = $1", [client.id]);
    await call(db, "withdraw_logout", { ended_sid: clientLogin });
    await db.query("delete from auth.sessions where id = $1", [claims.session_id]);
    expect(await queuedLogouts(db, userId)).not.toContain(clientLogin);
    expect(await queuedLogouts(db, userId)).toContain(deviceLogin);
  });
});

describe("claiming logout notices", () => {
  type Claimed = {
    id: string;
    app: string;
    uri: string;
    user_id: string;
    sid: string;
    attempts: number;
    is_last: boolean;
  };
  const claim = (db: Database, most = 10) =>
    db.asRole("service_role", () => db.query<Claimed>("select * from private.claim_logout_notices($1)", [most]));
  /** Makes only this account's notices due. */
  const dueOnly = (db: Database, userId: string) =>
    db.query("update private.logout_notices set next_attempt_at = now() + interval '1 hour' where user_id <> $1", [
      userId,
    ]);
  const ended = async (db: Database) => {
    const all = await scene(db);
    await db.query("delete from auth.sessions where id = $1", [all.claims.session_id]);
    await dueOnly(db, all.userId);
    return all;
  };

  test("claiming a logout notice returns the app, URL, person and session id for the logout token", async ({ db }) => {
    const { userId, satellite, satelliteLogin } = await ended(db);
    expect(await claim(db)).toContainEqual({
      id: expect.any(String),
      app: satellite.name,
      uri: "https://app.example/logout",
      user_id: userId,
      sid: satelliteLogin,
      attempts: 1,
      is_last: false,
    });
    expect(await claim(db)).toEqual([]);
  });

  test.for([
    [0, 5],
    [1, 30],
    [2, 120],
    [3, 600],
    [4, 3600],
    [27, 3600],
  ] as const)("a logout notice after %i attempts is retried %i seconds later", async ([attempts, seconds], { db }) => {
    const { userId } = await ended(db);
    await db.query("update private.logout_notices set attempts = $2 where user_id = $1", [userId, attempts]);
    await claim(db);
    const rows = await db.query<{ seconds: number }>(
      "select extract(epoch from next_attempt_at - now())::integer as seconds from private.logout_notices where user_id = $1",
      [userId],
    );
    expect(rows.map((row) => row.seconds)).toEqual([seconds, seconds]);
  });

  test("once a logout notice is a day old, the next attempt to send it is marked as the last", async ({ db }) => {
    const { userId } = await ended(db);
    const since = (interval: string) =>
      db.query(
        `update private.logout_notices set next_attempt_at = now(), created_at = now() - interval '${interval}' where user_id = $1`,
        [userId],
      );
    await since("1 day");
    expect((await claim(db)).map(({ is_last }) => is_last)).toEqual([true, true]);
    await since("23:59:59.999999");
    expect((await claim(db)).map(({ is_last }) => is_last)).toEqual([false, false]);
  });

  test("of two logout notices about the same login, one is claimed and the other is dropped", async ({ db }) => {
    const all = await ended(db);
    await db.query(
      "insert into private.logout_notices (app_id, user_id, sid) select app_id, user_id, sid from private.logout_notices where user_id = $1",
      [all.userId],
    );
    expect((await claim(db)).map(({ sid }) => sid).sort()).toEqual(browserLogins(all));
    expect(await queuedLogouts(db, all.userId)).toEqual(browserLogins(all));
  });

  test("drops logout notices to an app that no longer registers a logout URL", async ({ db }) => {
    const { userId, client, satelliteLogin } = await ended(db);
    await db.query("update private.apps set backchannel_logout_uri = null where id = $1", [client.id]);
    expect((await claim(db)).map(({ sid }) => sid)).toEqual([satelliteLogin]);
    expect(await queuedLogouts(db, userId)).toEqual([satelliteLogin]);
  });

  test("claims notices of different apps in turn, so that many notices to one app don't delay another app's notices", async ({
    db,
  }) => {
    const { userId, client, satellite } = await ended(db);
    await db.query(
      `insert into private.logout_notices (app_id, user_id, sid, next_attempt_at)
       select $1, $2, gen_random_uuid(), now() - interval '1 minute' from generate_series(1, 20)`,
      [client.id, userId],
    );
    expect((await claim(db, 2)).map(({ app }) => app).sort()).toEqual([client.name, satellite.name].sort());
  });
});
