import { describe, expect } from "vitest";
import { catalogRules } from "../catalog.ts";
import { type Database, one, signIn, test } from "../database.ts";
import { accessOf, confirm, createOwner } from "./access-fixtures.ts";
import {
  isTokenLive,
  liveCredentials,
  liveKinds,
  openEverything,
  signInDevice,
  signInToClient,
} from "./credential-fixtures.ts";

const methods = ["authenticator", "identity", "passkey", "password", "recovery_code", "recovery_mail"];
const access = [
  "agent_connection",
  "app_handoff",
  "app_session",
  "app_token",
  "device_request",
  "openid_code",
  "openid_login",
  "phone_approval",
  "session",
];

const end = (db: Database, name: string, { sub, session_id }: { sub: string; session_id: string }) =>
  one<{ ended: number }>(db, { sql: `select private.${name}($1, $2) as ended`, values: [sub, session_id] });

describe("account_credentials", () => {
  test("account_credentials has every kind of credential, and the access list shows them all", async ({ db }) => {
    const { userId, claims, kinds } = await openEverything(db);
    expect(kinds).toEqual([...methods, ...access].sort());
    expect(await liveKinds(db, userId)).toEqual(kinds);
    const listed = new Set((await accessOf(db, userId)).ways.map(({ key }) => key));
    const credentials = await liveCredentials(db, userId);
    expect(credentials.map(({ listed_as }) => listed_as).filter((key) => !listed.has(key))).toEqual([]);
    // An approval belongs to its session, which is listed as a whole.
    const own = (await accessOf(db, userId, claims.session_id)).ways.map(({ kind }) => kind);
    expect(own).not.toContain("phone_approval");
    expect(own).toContain("device");
    const { others } = await one<{ others: number }>(db, {
      sql: "select (private.access_state($1, $2) -> 'others')::int as others",
      values: [userId, claims.session_id],
    });
    // The app with tokens and a handoff, the devices, and the coding agent with its login.
    expect(others).toBe(own.filter((kind) => kind === "device" || kind === "agent").length + 2);
  });

  test.for([
    ["sign_out_everywhere", []],
    ["end_other_sessions", ["app_session", "openid_code", "openid_login", "phone_approval", "session"]],
  ] as const)("%s ends every kind of credential except ways to sign in", async ([name, ofSession], { db }) => {
    const { userId, claims } = await openEverything(db);
    await signIn(db, { userId });
    expect((await end(db, name, claims)).ended).toBeGreaterThanOrEqual(access.length - ofSession.length);
    expect(await liveKinds(db, userId)).toEqual([...methods, ...ofSession].sort());
    const left = (await liveCredentials(db, userId)).filter(({ kind }) => access.includes(kind));
    expect(left.map(({ session_id }) => session_id)).toEqual(left.map(() => claims.session_id));
    const { count } = await one<{ count: number }>(db, {
      sql: "select count(*)::int as count from public.security_events where user_id = $1 and kind in ($2, $3)",
      values: [userId, "all_sessions_revoked", "other_sessions_revoked"],
    });
    expect(count).toBe(1);
    expect((await end(db, name, claims)).ended).toBe(0);
  });

  test("nothing that ends an account's access ends its service accounts, which are listed apart", async ({ db }) => {
    const { userId, claims } = await createOwner(db);
    const { id } = await one<{ id: string }>(db, {
      sql: `insert into private.service_accounts (name, scopes, created_by, expires_at)
        values ($1, '{admin:audit:read}', $2, now() + interval '1 day') returning id`,
      values: [userId, userId],
    });
    const before = await accessOf(db, userId);
    expect(before.ways.map(({ key }) => key)).not.toContain(`service_account:${id}`);
    expect(before).toMatchObject({ serviceAccounts: [{ id, name: userId, workspaceId: null, workspace: null }] });
    await confirm(db, { userId, sessionId: claims.session_id, remove: [`service_account:${id}`] });
    await end(db, "end_other_sessions", claims);
    await end(db, "sign_out_everywhere", claims);
    expect(await liveKinds(db, userId)).toContain("service_account");
  });

  test("removing everything that the access list offers leaves only the calling session", async ({ db }) => {
    const { userId, claims } = await openEverything(db);
    const remove = (await accessOf(db, userId)).ways.map(({ key }) => key).filter((key) => key !== "password");
    expect(await confirm(db, { userId, sessionId: claims.session_id, remove })).toMatchObject({ outcome: "confirmed" });
    const left = await liveCredentials(db, userId);
    expect(left.map(({ kind }) => kind)).toEqual(["identity", "password", "session"]);
    expect(left[2]?.session_id).toBe(claims.session_id);
  });
});

describe("a device and an app that an intruder signed in", () => {
  test("are listed as new, and refused once the owner removes them", async ({ db }) => {
    const { userId, claims } = await createOwner(db);
    const mine = await signInDevice(db, claims);
    await confirm(db, { userId, sessionId: claims.session_id });
    await db.query("update private.access_confirmations set confirmed_at = now() - interval '1 minute'");
    await db.query("update auth.sessions set created_at = created_at - interval '1 hour' where user_id = $1", [userId]);
    await db.query(
      `update private.openid_grants set created_at = created_at - interval '1 hour', ends_at = ends_at - interval '1 hour'
       where user_id = $1`,
      [userId],
    );
    await db.query("update public.security_events set created_at = created_at - interval '1 hour' where user_id = $1", [
      userId,
    ]);
    const theirs = await signIn(db, { userId });
    const [device, client] = [await signInDevice(db, theirs), await signInToClient(db, theirs)];
    const { ways } = await accessOf(db, userId, claims.session_id);
    const added = ways.filter(({ isNew }) => isNew);
    expect(added.map(({ kind }) => kind)).toEqual(["session", "app", "device"]);
    expect(ways.filter(({ kind }) => kind === "device").map(({ isNew }) => isNew)).toEqual([false, true]);
    expect(added[2]).toMatchObject({ name: "Field CLI", device: "Chrome on Linux" });

    await confirm(db, { userId, sessionId: claims.session_id, remove: added.map(({ key }) => key) });
    expect(await isTokenLive(db, device.accessHash)).toBe(false);
    expect(await isTokenLive(db, client.accessHash)).toBe(false);
    expect(await isTokenLive(db, mine.accessHash)).toBe(true);
  });

  test("a device that redeems its code after the list was read is still ended", async ({ db }) => {
    const { userId, claims } = await createOwner(db);
    const { accessHash } = await signInDevice(db, claims);
    // The list showed the request, under the key that its login has now.
    const key = (await accessOf(db, userId)).ways.find(({ kind }) => kind === "device")?.key;
    const { id } = await one<{ id: string }>(db, {
      sql: "select id from private.device_authorizations where user_id = $1",
      values: [userId],
    });
    expect(key).toBe(`device:${id}`);
    await confirm(db, { userId, sessionId: claims.session_id, remove: [`device:${id}`] });
    expect(await isTokenLive(db, accessHash)).toBe(false);
  });
});

test("a lookup of an account's credentials uses indexes, also of Supabase Auth's tables", async ({ db }) => {
  await db.query("set local enable_seqscan = off");
  const plan = await db.query<{ "QUERY PLAN": string }>(
    "explain select * from private.account_credentials where user_id = '00000000-0000-0000-0000-000000000000'",
  );
  const lines = plan.map((row) => row["QUERY PLAN"]).join("\n");
  expect(lines).not.toContain("Function Scan");
  for (const table of ["sessions", "identities", "mfa_factors", "webauthn_credentials", "users"]) {
    expect(lines).toMatch(new RegExp(`(Index|Bitmap).* (Scan|Heap Scan)( using \\w+)? on ${table} `));
    expect(lines).not.toMatch(new RegExp(`Seq Scan on ${table} `));
  }
});

describe("the rule that every credential is in account_credentials", () => {
  const rule = catalogRules.find(({ name }) => name.includes("account_credentials"));

  const view = `'create or replace view private.account_credentials with (security_invoker = true) as '
    || pg_get_viewdef('private.account_credentials'::regclass)`;
  const auth = "pg_get_functiondef('private.auth_credentials()'::regprocedure)";

  test.for([
    ["private.openid_grants", view],
    ["private.device_authorizations", view],
    ["private.app_sessions", view],
    ["ai.app_tokens", view],
    ["ai.keys", view],
    ["private.login_challenges", auth],
    ["auth.identities", auth],
    ["auth.mfa_factors", auth],
    ["auth.sessions", auth],
    ["auth.users", auth],
    ["auth.webauthn_credentials", auth],
  ] as const)("fails if the view leaves out %s", async ([table, definition], { db }) => {
    const { sql } = await one<{ sql: string }>(db, { sql: `select ${definition} as sql` });
    await db.query(`create table private.stand_in (like ${table})`);
    await db.query(
      sql.replaceAll(new RegExp(`(from|join) (\\(*)${table.replace(".", "\\.")}\\b`, "gi"), "$1 $2private.stand_in"),
    );
    const offences = (await db.query<{ offence: string }>(rule?.sql ?? "")).map(({ offence }) => offence);
    expect(offences).toContain(table);
  });
});
