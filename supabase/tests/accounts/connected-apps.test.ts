import { describe, expect } from "vitest";
import { createActor } from "../actors.ts";
import {
  type App,
  call,
  handOver,
  introspect,
  newHash,
  openAppSession,
  redeem,
  refreshSession,
  registerApp,
  revoke,
} from "../apps/fixtures.ts";
import { openClientLogin, registerClient } from "../apps/logout-fixtures.ts";
import { type Database, signIn, test } from "../database.ts";
import { beginExchange, exchange, issueAppToken, newPair, refresh, tokenOf } from "../satellites/app-token-fixtures.ts";

interface Held {
  scopes: string[];
  connectedAt: string;
  renewedAt: string;
  endsAt: string;
}

interface Connected {
  name: string;
  displayName: string;
  origins: string[];
  session: Held | null;
  login: Held | null;
  consent: { scopes: string[]; grantedAt: string } | null;
  tokens: (Held & { workspace: string | null })[];
}

const appsOf = (db: Database, userId: string) => call<Connected[]>(db, "connected_apps", { subject_id: userId });
const namesOf = async (db: Database, userId: string) => (await appsOf(db, userId)).map(({ name }) => name);
const event = { kind: "app_disconnected", ip: "203.0.113.7", userAgent: "Test/1", device: "Test browser" };
const disconnect = (db: Database, { userId, app }: { userId: string; app: Pick<App, "name"> }) =>
  call<string>(db, "disconnect_app", { subject_id: userId, app_name: app.name, event });
const eventsOf = (db: Database, userId: string) =>
  db.query("select kind, host(ip) as ip, device, details from public.security_events where user_id = $1", [userId]);

describe("connected apps", () => {
  test("lists apps with sessions or tokens, with their current scopes, first connection and expiry", async ({ db }) => {
    const { setting, pair } = await issueAppToken(db, { scopes: ["workspace:session", "ai:use", "tts:use"] });
    const { claims } = setting;
    expect(await namesOf(db, (await createActor(db, {})).sub)).toEqual([]);
    const notes = await registerApp(db, { origins: ["https://notes.example", "https://a.notes.example"] });
    await openAppSession(db, { claims, app: notes });
    await openAppSession(db, { claims, app: notes });
    await db.query("update private.apps set display_name = 'Aurora' where id = $1", [notes.id]);
    await db.query(
      `update private.app_sessions set created_at = now() - interval '3 days', ends_at = now() + interval '27 days'
       where handoff_id = (select min(handoff_id::text)::uuid from private.app_sessions where app_id = $1)`,
      [notes.id],
    );
    await refresh(db, { ...setting, from: pair.refresh, to: newPair() });
    const time = expect.any(String);
    const held = { connectedAt: time, renewedAt: time, endsAt: time };
    const found = await appsOf(db, claims.sub);
    expect(found).toEqual([
      {
        name: notes.name,
        displayName: "Aurora",
        origins: ["https://a.notes.example", "https://notes.example"],
        session: { ...held, scopes: ["profile", "workspaces:read", "workspaces:write"] },
        login: null,
        consent: null,
        tokens: [],
      },
      {
        name: setting.app.name,
        displayName: "Notes",
        origins: [],
        session: null,
        login: null,
        consent: null,
        tokens: [{ ...held, scopes: ["ai:use", "tts:use", "workspace:session"], workspace: "Shared" }],
      },
    ]);
    const days = (from?: string, to?: string) => (Date.parse(to ?? "") - Date.parse(from ?? "")) / 86_400_000;
    const { session } = found[0] ?? {};
    expect(days(session?.connectedAt, session?.renewedAt)).toBeCloseTo(3, 3);
    expect(days(session?.renewedAt, session?.endsAt)).toBeCloseTo(30, 3);
    const token = found[1]?.tokens[0];
    expect(days(token?.renewedAt, token?.endsAt)).toBeCloseTo(30, 3);
  });

  test("lists only those scopes of a connected app that its registration still allows", async ({ db }) => {
    const { setting } = await issueAppToken(db, { scopes: ["workspace:session", "ai:use", "tts:use"] });
    await db.query("update private.apps set scopes = array['workspace:session', 'ai:use'] where id = $1", [
      setting.app.id,
    ]);
    expect(await appsOf(db, setting.claims.sub)).toMatchObject([
      { tokens: [{ scopes: ["ai:use", "workspace:session"], workspace: "Shared" }] },
    ]);
  });

  test("a connected app shows the date of its handoff, even after its token was refreshed and the old token was deleted", async ({
    db,
  }) => {
    const { setting, pair } = await issueAppToken(db);
    const since = "2026-01-02T03:04:05+00:00";
    await db.query("update ai.app_tokens set handed_over_at = $2 where token_hash = $1", [pair.access, since]);
    await db.query("update public.workspace_members set created_at = $2 where user_id = $1", [
      setting.claims.sub,
      since,
    ]);
    await refresh(db, { ...setting, from: pair.refresh, to: newPair() });
    await db.query("delete from ai.app_tokens where token_hash = $1", [pair.access]);
    const [app] = await appsOf(db, setting.claims.sub);
    expect(Date.parse(app?.tokens[0]?.connectedAt ?? "")).toBe(Date.parse(since));
  });

  test.for([
    ["whose app is unlinked from the workspace", "delete from private.app_workspaces where app_id = $1 and $2 <> ''"],
    ["of a deleted workspace", "update public.workspaces set deleted_at = now() where $1 <> '' and id = $2"],
    [
      "of a former member",
      `delete from public.workspace_members m using ai.app_tokens t
       where t.app_id = $1 and m.workspace_id = $2 and m.user_id = t.user_id`,
    ],
  ] as const)("connected apps show no workspace and no scopes for tokens %s", async ([, sql], { db }) => {
    const claims = await createActor(db, {});
    const { setting } = await issueAppToken(db, { claims });
    await db.query(sql.replaceAll("$1 <> ''", "$1::text <> ''").replaceAll("$2 <> ''", "$2::text <> ''"), [
      setting.app.id,
      setting.workspaceId,
    ]);
    expect(await appsOf(db, claims.sub)).toMatchObject([{ tokens: [{ scopes: [], workspace: null }] }]);
  });

  test("an app disappears from the list exactly when its last session or token expires", async ({ db }) => {
    const { setting, pair } = await issueAppToken(db);
    const { claims } = setting;
    const notes = await registerApp(db);
    await openAppSession(db, { claims, app: notes });
    const both = [setting.app.name, notes.name].sort();
    const of = async () => (await namesOf(db, claims.sub)).sort();
    const set = (sql: string) => db.query(sql, [claims.sub]);
    expect(await of()).toEqual(both);
    await set("update private.app_sessions set expires_at = now() where user_id = $1");
    expect(await of()).toEqual([setting.app.name]);
    await set("update private.app_sessions set expires_at = now() + interval '1 microsecond' where user_id = $1");
    expect(await of()).toEqual(both);
    await set("update ai.app_tokens set refresh_expires_at = now() where user_id = $1");
    expect(await of()).toEqual([notes.name]);
    await set("update ai.app_tokens set refresh_expires_at = now() + interval '1 microsecond' where user_id = $1");
    expect(await of()).toEqual(both);
    // A sign-out ends app sessions but not app tokens.
    await db.query("delete from auth.sessions where id = $1", [claims.session_id]);
    expect(await of()).toEqual([setting.app.name]);
    await revoke(db, { app: setting.app, hash: pair.refresh });
    expect(await of()).toEqual([]);
  });
});

describe("disconnecting an app", () => {
  test("disconnecting an app ends its sessions, tokens, refresh tokens and outstanding handoffs, and is logged", async ({
    db,
  }) => {
    const { setting, pair } = await issueAppToken(db);
    const { app, claims } = setting;
    const session = await openAppSession(db, { claims, app });
    const pending = await handOver(db, { claims, app });
    expect(await disconnect(db, { userId: claims.sub, app })).toBe("disconnected");
    expect(await introspect(db, { app, hash: session.appHash })).toEqual({ active: false });
    expect(await refreshSession(db, { app, hash: session.appHash, successor: newHash() })).toEqual({
      refused: "token",
    });
    expect(await tokenOf(db, pair.access)).toBeUndefined();
    expect(await refresh(db, { ...setting, from: pair.refresh, to: newPair() })).toEqual({ refused: "token" });
    expect(await redeem(db, { app, handoff: pending })).toEqual({ refused: "token" });
    expect(await exchange(db, { ...setting, handoff: pending })).toEqual({ refused: "token" });
    expect(await appsOf(db, claims.sub)).toEqual([]);
    expect(await eventsOf(db, claims.sub)).toEqual([
      { kind: "app_disconnected", ip: "203.0.113.7", device: "Test browser", details: { app: "Notes" } },
    ]);
  });

  test("a disconnected app can't be disconnected again until it is reconnected", async ({ db }) => {
    const app = await registerApp(db);
    const claims = await createActor(db, {});
    await openAppSession(db, { claims, app });
    expect(await disconnect(db, { userId: claims.sub, app })).toBe("disconnected");
    expect(await disconnect(db, { userId: claims.sub, app })).toBe("over");
    expect(await eventsOf(db, claims.sub)).toHaveLength(1);
    const { appHash } = await openAppSession(db, { claims, app });
    expect(await introspect(db, { app, hash: appHash })).toMatchObject({ active: true });
    expect(await disconnect(db, { userId: claims.sub, app })).toBe("disconnected");
  });

  test("disconnecting an app revokes an outstanding handoff even if the app has no session or token", async ({
    db,
  }) => {
    const app = await registerApp(db);
    const claims = await createActor(db, {});
    const handoff = await handOver(db, { claims, app });
    expect(await disconnect(db, { userId: claims.sub, app })).toBe("disconnected");
    expect(await redeem(db, { app, handoff })).toEqual({ refused: "token" });
  });

  test("disconnecting an app does not affect other people or other apps", async ({ db }) => {
    const { setting, pair } = await issueAppToken(db);
    const { app, claims } = setting;
    const [other, stranger] = [await createActor(db, {}), await createActor(db, {})];
    const theirs = await openAppSession(db, { claims: other, app });
    const notes = await registerApp(db);
    const mine = await openAppSession(db, { claims, app: notes });
    const pending = await handOver(db, { claims: other, app });

    expect(await disconnect(db, { userId: stranger.sub, app })).toBe("not_found");
    expect(await tokenOf(db, pair.access)).toMatchObject({ refused: null });
    expect(await disconnect(db, { userId: claims.sub, app })).toBe("disconnected");
    expect(await introspect(db, { app, hash: theirs.appHash })).toMatchObject({ active: true });
    expect(await introspect(db, { app: notes, hash: mine.appHash })).toMatchObject({ active: true });
    expect(await namesOf(db, other.sub)).toEqual([app.name]);
    expect(await redeem(db, { app, handoff: pending })).not.toHaveProperty("refused");
    for (const { sub } of [other, stranger]) expect(await eventsOf(db, sub)).toEqual([]);
  });

  test("an app counts as formerly connected only for the person who connected it", async ({ db }) => {
    const app = await registerApp(db);
    const [claims, other] = [await createActor(db, {}), await createActor(db, {})];
    const wasOf = ({ sub }: { sub: string }) =>
      call<boolean>(db, "app_was_ever_connected", { subject_id: sub, app_name: app.name });
    expect(await wasOf(claims)).toBe(false);
    await openAppSession(db, { claims, app });
    await disconnect(db, { userId: claims.sub, app });
    expect([await wasOf(claims), await wasOf(other)]).toEqual([true, false]);
  });

  test("disconnecting an unknown app name does nothing", async ({ db }) => {
    const { sub: userId } = await createActor(db, {});
    for (const name of ["unregistered-app", "", "'", "NOTES"])
      expect(await disconnect(db, { userId, app: { name } })).toBe("not_found");
  });

  test("disconnecting an app ends its app sessions, regardless of which of the person's sessions opened them", async ({
    db,
  }) => {
    const app = await registerApp(db);
    const claims = await createActor(db, {});
    const elsewhere = await signIn(db, { userId: claims.sub });
    const held = [await openAppSession(db, { claims, app }), await openAppSession(db, { claims: elsewhere, app })];
    expect(await disconnect(db, { userId: claims.sub, app })).toBe("disconnected");
    for (const { appHash, centralHash } of held) {
      for (const hash of [appHash, centralHash]) expect(await introspect(db, { app, hash })).toEqual({ active: false });
    }
  });

  test("disconnecting an app does not affect an unfinished handoff to another app", async ({ db }) => {
    const setting = await beginExchange(db);
    const other = await registerApp(db, { kind: "external", workspaceId: setting.workspaceId });
    await openAppSession(db, { claims: setting.claims, app: other });
    expect(await disconnect(db, { userId: setting.claims.sub, app: other })).toBe("disconnected");
    expect(await exchange(db, setting)).not.toHaveProperty("refused");
  });
});

describe("an OpenID client", () => {
  const consent = (db: Database, { userId, app }: { userId: string; app: App }) =>
    db.query(
      "insert into private.openid_consents (user_id, app_id, scopes) values ($1, $2, '{openid,profile,workspaces:read}')",
      [userId, app.id],
    );

  test("an OpenID client with logins is listed once, with the scopes for which it is still registered", async ({
    db,
  }) => {
    const [claims, app] = [await createActor(db, {}), await registerClient(db)];
    await openClientLogin(db, { claims, app });
    await openClientLogin(db, { claims, app, fromDevice: true });
    await db.query("update private.apps set scopes = '{workspaces:read}' where id = $1", [app.id]);
    const time = expect.any(String);
    expect(await appsOf(db, claims.sub)).toEqual([
      {
        name: app.name,
        displayName: "Grafana",
        origins: [],
        session: null,
        login: {
          scopes: ["openid", "workspaces:read"],
          connectedAt: time,
          renewedAt: time,
          endsAt: time,
          resources: [],
        },
        consent: null,
        tokens: [],
      },
    ]);
  });

  test("an OpenID client is listed until exactly when its last login expires", async ({ db }) => {
    const [claims, app] = [await createActor(db, {}), await registerClient(db)];
    await openClientLogin(db, { claims, app });
    const set = (end: string) =>
      db.query(
        `update private.openid_grants set created_at = now() - interval '1 day', ends_at = ${end} where user_id = $1`,
        [claims.sub],
      );
    await set("now() + interval '1 microsecond'");
    expect(await namesOf(db, claims.sub)).toEqual([app.name]);
    await set("now()");
    expect(await namesOf(db, claims.sub)).toEqual([]);
  });

  test("an OpenID client is listed while the person's consent is valid, and disconnecting it withdraws the consent", async ({
    db,
  }) => {
    const [claims, app] = [await createActor(db, {}), await registerClient(db)];
    await consent(db, { userId: claims.sub, app });
    expect(await appsOf(db, claims.sub)).toMatchObject([
      { name: app.name, login: null, consent: { scopes: ["openid", "profile", "workspaces:read"] } },
    ]);
    expect(await disconnect(db, { userId: claims.sub, app })).toBe("disconnected");
    expect(await appsOf(db, claims.sub)).toEqual([]);
  });

  test("disconnecting an OpenID client ends its logins, codes, device approvals and consent, and a second disconnect changes nothing", async ({
    db,
  }) => {
    const [claims, other, app] = [await createActor(db, {}), await createActor(db, {}), await registerClient(db)];
    for (const each of [claims, other]) {
      await openClientLogin(db, { claims: each, app });
      await consent(db, { userId: each.sub, app });
      await pending(db, { userId: each.sub, app });
    }
    expect(await leftOf(db, claims.sub)).toEqual({ logins: 1, codes: 1, devices: 1, consents: 1 });
    expect(await disconnect(db, { userId: claims.sub, app })).toBe("disconnected");
    expect(await leftOf(db, claims.sub)).toEqual({ logins: 0, codes: 0, devices: 0, consents: 0 });
    expect(await leftOf(db, other.sub)).toEqual({ logins: 1, codes: 1, devices: 1, consents: 1 });
    expect(await disconnect(db, { userId: claims.sub, app })).toBe("over");
    expect(await eventsOf(db, claims.sub)).toHaveLength(1);
  });

  test.for([
    ["a password change", "update auth.users set encrypted_password = 'new' where id = $1"],
    ["a ban", "update auth.users set banned_until = now() + interval '1 day' where id = $1"],
    [
      "being disabled",
      `update private.apps set enabled = false
       where id in (select app_id from private.openid_grants where user_id = $1)`,
    ],
  ] as const)(
    "an OpenID client loses its logins, codes and device approvals after %s but keeps the consent",
    async ([, sql], { db }) => {
      const [claims, app] = [await createActor(db, {}), await registerClient(db)];
      await openClientLogin(db, { claims, app });
      await consent(db, { userId: claims.sub, app });
      await pending(db, { userId: claims.sub, app });
      await db.query(sql, [claims.sub]);
      expect(await leftOf(db, claims.sub)).toEqual({ logins: 0, codes: 0, devices: 0, consents: 1 });
    },
  );

  test("an OpenID client's codes, device approvals and logins are deleted a day after they expire, and not before", async ({
    db,
  }) => {
    const [claims, app] = [await createActor(db, {}), await registerClient(db)];
    await openClientLogin(db, { claims, app });
    await pending(db, { userId: claims.sub, app });
    const expire = async (end: string) => {
      await db.query(
        `update private.authorization_codes set created_at = ${end} - interval '1 minute', expires_at = ${end} where user_id = $1`,
        [claims.sub],
      );
      await db.query(
        `update private.device_authorizations set created_at = ${end} - interval '1 minute', expires_at = ${end}
         where user_id = $1`,
        [claims.sub],
      );
      await db.query(
        `update private.openid_grants set created_at = ${end} - interval '1 day', ends_at = ${end} where user_id = $1`,
        [claims.sub],
      );
    };
    const rows = async () => {
      const tables = ["authorization_codes", "device_authorizations", "openid_grants"];
      const counts = tables.map((table) => db.query(`select from private.${table} where user_id = $1`, [claims.sub]));
      return (await Promise.all(counts)).map(({ length }) => length);
    };
    await expire("now() - interval '1 day'");
    await call(db, "sweep_app_credentials", {});
    expect(await rows()).toEqual([1, 1, 1]);
    await expire("now() - interval '1 day 1 microsecond'");
    await call(db, "sweep_app_credentials", {});
    expect(await rows()).toEqual([0, 0, 0]);
  });
});

/** Adds an unredeemed code and an unredeemed device approval. */
async function pending(db: Database, { userId, app }: { userId: string; app: App }): Promise<void> {
  const proof = "row($1, gen_random_uuid(), gen_random_uuid(), 1, 1, 1)::private.mfa_proof";
  const authentication = "row(now(), 'aal1', '{pwd}')::private.openid_authentication";
  await db.query(
    `insert into private.authorization_codes (code_hash, app_id, user_id, proof, authentication, redirect_uri, scopes,
       code_challenge, expires_at)
     values ($3, $2, $1, ${proof}, ${authentication}, 'https://app.example/cb', '{openid}', repeat('a', 43),
       now() + interval '1 minute')`,
    [userId, app.id, newHash()],
  );
  await db.query(
    `insert into private.device_authorizations (device_code_hash, user_code, app_id, scopes, user_id, proof,
       authentication, approved_at, expires_at)
     values ($3, $4, $2, '{openid}', $1, ${proof}, ${authentication}, now(), now() + interval '10 minutes')`,
    [userId, app.id, newHash(), Array.from(newHash().subarray(0, 8), (byte) => "BCDFGHJKLMNPQRST"[byte % 16]).join("")],
  );
}

/** Counts the credentials that a person's clients can still use. */
async function leftOf(db: Database, userId: string): Promise<Record<string, number>> {
  const [left] = await db.query<Record<string, number>>(
    `select
       (select count(*)::integer from private.openid_grants where user_id = $1 and revoked_at is null) as logins,
       (select count(*)::integer from private.authorization_codes where user_id = $1 and revoked_at is null) as codes,
       (select count(*)::integer from private.device_authorizations where user_id = $1) as devices,
       (select count(*)::integer from private.openid_consents where user_id = $1) as consents`,
    [userId],
  );
  if (!left) throw new Error("a count has one row");
  return left;
}
