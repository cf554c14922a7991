import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { failureOf } from "../actors.ts";
import { introspect, openAppSession, registerApp } from "../apps/fixtures.ts";
import { type Database, enrollFactor, one, signIn, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { issueAppToken, tokenOf } from "../satellites/app-token-fixtures.ts";
import {
  accessOf,
  addPasskey,
  confirm,
  createOwner,
  linkGoogle,
  markUnconfirmed,
  sessionsOf,
  signInBy,
  type Way,
} from "./access-fixtures.ts";

const required = { version: 1, required: true, boundary: 0, primaryBoundary: null, recovery: "none", generation: 1 };
const eventsOf = async (db: Database, userId: string) =>
  (
    await db.query<{ kind: string }>("select kind from public.security_events where user_id = $1 order by kind", [
      userId,
    ])
  ).map(({ kind }) => kind);
const keysOf = (ways: { key: string }[]) => ways.map(({ key }) => key);

describe("account_access", () => {
  test("account_access lists an account's password, identities, passkeys, authenticators, sessions and apps", async ({
    db,
  }) => {
    const { userId, claims } = await createOwner(db);
    const [google, passkey, factor] = [
      await linkGoogle(db, { userId }),
      await addPasskey(db, { userId }),
      await enrollFactor(db, { userId }),
    ];
    await enrollFactor(db, { userId, status: "unverified" });
    const raised = await signIn(db, { userId, factorId: factor });
    const app = await registerApp(db);
    await openAppSession(db, { claims: raised, app });
    const { ways } = await accessOf(db, userId);
    expect(keysOf(ways)).toEqual([
      "password",
      `identity:${google}`,
      `passkey:${passkey}`,
      `authenticator:${factor}`,
      ...[claims.session_id, raised.session_id].sort().map((id) => `session:${id}`),
      `app:${app.name}`,
    ]);
  });

  test("account_access shows the device and address from which an entry was added, or null for both if no event recorded the addition", async ({
    db,
  }) => {
    const { userId, claims } = await createOwner(db);
    const [known, unknown] = [await addPasskey(db, { userId }), await addPasskey(db, { userId })];
    await db.query("delete from public.security_events where target_id = $1", [unknown]);
    await db.query(
      `update public.security_events set session_id = $2, device = 'Chrome on macOS', ip = '203.0.113.7'
       where target_id = $1`,
      [known, claims.session_id],
    );
    await signInBy(db, { userId, method: "password", logged: "password" });
    const { ways } = await accessOf(db, userId);
    const of = (key: string) => ways.find((way) => way.key === key);
    expect(of(`passkey:${known}`)).toMatchObject({
      device: "Chrome on macOS",
      address: "203.0.113.7",
      bySession: claims.session_id,
    });
    expect(of(`passkey:${unknown}`)).toMatchObject({ device: null, address: null, bySession: null });
    expect(ways.filter(({ kind }) => kind === "session").map(({ device }) => device)).toContain("Firefox on Windows");
    expect(of("password")?.lastUsedAt).not.toBeNull();
  });

  test("account_access marks an entry as new if it was added after the last confirmation, or after account creation if nothing was confirmed yet", async ({
    db,
  }) => {
    const { userId, claims } = await createOwner(db);
    const days = 24 * 60 * 60;
    const first = await linkGoogle(db, { userId, createdIn: -7 * days + 0.1 });
    const later = await linkGoogle(db, { userId, createdIn: -7 * days + 60 });
    const newest = await linkGoogle(db, { userId, createdIn: -60 });
    const isNew = async () =>
      Object.fromEntries((await accessOf(db, userId)).ways.map((way) => [way.id ?? way.kind, way.isNew]));
    expect(await isNew()).toMatchObject({ password: false, [first]: false, [later]: true, [newest]: true });
    await confirm(db, { userId, sessionId: claims.session_id, listedAt: new Date(Date.now() - 120_000).toISOString() });
    expect(await isNew()).toMatchObject({ password: false, [first]: false, [later]: false, [newest]: true });
  });

  test("account_access marks as new an authenticator that was verified, or a session that was copied, after the last confirmation", async ({
    db,
  }) => {
    const { userId, claims } = await createOwner(db);
    const factor = await enrollFactor(db, { userId, status: "unverified" });
    await db.query("update auth.mfa_factors set created_at = now() - interval '1 hour' where id = $1", [factor]);
    const confirmedAt = new Date(Date.now() - 120_000);
    await confirm(db, { userId, sessionId: claims.session_id, listedAt: confirmedAt.toISOString() });
    await db.query("select private.announce_addition($1, $2)", [userId, factor]);
    await db.query("update auth.mfa_factors set status = 'verified' where id = $1", [factor]);
    const copy = await signInBy(db, { userId, method: "otp", logged: "qr" });
    await db.query("select private.set_session_sign_in_time($1, now() - interval '1 hour')", [copy]);
    const { ways } = await accessOf(db, userId);
    expect(ways.filter(({ isNew }) => isNew).map(({ key }) => key)).toEqual(
      expect.arrayContaining([`authenticator:${factor}`, `session:${copy}`]),
    );
  });

  test("account_access marks an app as new after it is reconnected", async ({ db }) => {
    const { userId, claims } = await createOwner(db);
    const app = await registerApp(db);
    await openAppSession(db, { claims, app });
    await db.query(
      "update private.app_sessions set created_at = created_at - interval '8 days', ends_at = ends_at - interval '8 days' where user_id = $1",
      [userId],
    );
    const appOf = async () => (await accessOf(db, userId)).ways.find(({ kind }) => kind === "app");
    expect(await appOf()).toMatchObject({ name: "Notes", isNew: false });
    await openAppSession(db, { claims, app });
    expect(await appOf()).toMatchObject({ isNew: true });
  });

  test("only our server can call account_access", async ({ db }) => {
    const { userId, claims } = await createOwner(db);
    for (const call of [
      `account_access('${userId}', null)`,
      `confirm_access('${userId}', '${claims.session_id}', '{}', '{}')`,
      `sign_out_everywhere('${userId}', '${claims.session_id}')`,
      `end_other_sessions('${userId}', '${claims.session_id}')`,
      `may_review_authenticators('${userId}', '${claims.session_id}')`,
    ]) {
      const run = () => db.query(`select private.${call}`);
      expect(await failureOf(() => db.asUser(claims, run))).toMatchObject({ code: "42501" });
      expect(await failureOf(() => db.asRole("anon", run))).toMatchObject({ code: "42501" });
    }
    await db.asRole("service_role", () => accessOf(db, userId));
  });
});

test("only the authenticator whose code the calling session entered is proven", async ({ db }) => {
  const { userId, claims } = await createOwner(db);
  const [used, other] = [await enrollFactor(db, { userId }), await enrollFactor(db, { userId })];
  const { session_id: raised } = await signIn(db, { userId, factorId: used });
  const provenIn = async (sessionId: string) =>
    (await accessOf(db, userId, sessionId)).ways.filter(({ proven }) => proven).map(({ id }) => id);
  expect(await provenIn(raised)).toEqual([used]);
  expect(await provenIn(claims.session_id)).toEqual([]);
  expect(other).not.toBe(used);
});

describe("an account with more sessions than its access list can hold", () => {
  const listed = async (
    db: Database,
    { userId, sessionId, most }: { userId: string; sessionId: string; most: number },
  ) => {
    const { answer } = await one<{ answer: { listedAt: string; ways: Way[]; otherSessions: object } }>(db, {
      sql: "select private.account_access($1, $2, $3) as answer",
      values: [userId, sessionId, most],
    });
    return { ...answer, sessions: keysOf(answer.ways.filter(({ kind }) => kind === "session")) };
  };

  test.for([
    [3, 3, 0, false],
    [2, 2, 1, true],
    [1, 1, 2, true],
  ] as const)(
    "account_access lists %d of 3 sessions, including the caller's, and counts the others",
    async ([most, length, count, isNew], { db }) => {
      const { userId, claims } = await createOwner(db);
      await signIn(db, { userId });
      await signIn(db, { userId });
      const { sessions, otherSessions } = await listed(db, { userId, sessionId: claims.session_id, most });
      expect(sessions).toHaveLength(length);
      expect(sessions).toContain(`session:${claims.session_id}`);
      expect(otherSessions).toEqual({ key: "other_sessions", count, isNew });
    },
  );

  test("confirm_access can end all unlisted sessions together, without ending listed sessions or sessions created later", async ({
    db,
  }) => {
    const { userId, claims } = await createOwner(db);
    const kept = await signIn(db, { userId });
    const other = await signIn(db, { userId });
    await db.query("update auth.sessions set created_at = now() - interval '2 days' where id = $1", [other.session_id]);
    const sessionId = claims.session_id;
    const { listedAt, sessions } = await listed(db, { userId, sessionId, most: 2 });
    expect(sessions).toContain(`session:${kept.session_id}`);
    const later = await signIn(db, { userId });
    await db.query("update auth.sessions set created_at = now() + interval '1 minute' where id = $1", [
      later.session_id,
    ]);
    const removals = { listedAt, listed: [], sessions, remove: ["other_sessions"] };
    const answer = await one(db, {
      sql: "select private.confirm_access($1, $2, $3, '{}') ->> 'outcome' as outcome",
      values: [userId, sessionId, JSON.stringify(removals)],
    });
    expect(answer).toEqual({ outcome: "confirmed" });
    expect(await sessionsOf(db, userId)).toEqual([sessionId, kept.session_id, later.session_id].sort());
  });
});

test("access_state returns the same confirmation time and the same unconfirmed entries as account_access", async ({
  db,
}) => {
  const { userId, claims } = await createOwner(db);
  const passkey = await addPasskey(db, { userId });
  await markUnconfirmed(db, { userId, targetId: passkey, kind: "passkey" });
  const read = () =>
    one<{ state: { confirmedAt: string | null; unconfirmed: string[] } }>(db, {
      sql: "select private.access_state($1, $2) as state",
      values: [userId, claims.session_id],
    });
  expect((await read()).state).toEqual({ confirmedAt: null, unconfirmed: [passkey], others: 0 });
  await confirm(db, { userId, sessionId: claims.session_id });
  const { confirmedAt } = await accessOf(db, userId, claims.session_id);
  expect((await read()).state).toEqual({ confirmedAt, unconfirmed: [], others: 0 });
});

describe("confirm_access", () => {
  test("confirm_access removes the selected entries, and keeps and confirms the rest", async ({ db }) => {
    const { userId, claims } = await createOwner(db);
    const [theirs, mine] = [await linkGoogle(db, { userId }), await addPasskey(db, { userId })];
    await markUnconfirmed(db, { userId, targetId: theirs, kind: "identity" });
    await markUnconfirmed(db, { userId, targetId: mine, kind: "passkey" });
    const answer = await db.asRole("service_role", () =>
      confirm(db, { userId, sessionId: claims.session_id, remove: [`identity:${theirs}`] }),
    );
    expect(answer).toMatchObject({ outcome: "confirmed", removed: [{ key: `identity:${theirs}` }] });
    const { ways, confirmedAt } = await accessOf(db, userId);
    expect(keysOf(ways)).toEqual(["password", `passkey:${mine}`, `session:${claims.session_id}`]);
    expect(ways.some(({ isNew, unconfirmed }) => isNew || unconfirmed)).toBe(false);
    expect(confirmedAt).not.toBeNull();
    expect(await db.query("select from private.unconfirmed_additions where user_id = $1", [userId])).toEqual([]);
    const identities = await db.query("select provider from auth.identities where user_id = $1", [userId]);
    expect(identities).toEqual([{ provider: "email" }]);
  });

  test("an unconfirmed Google account counts as a way to sign in only if the owner keeps it", async ({ db }) => {
    const { userId, claims } = await createOwner(db);
    const google = await linkGoogle(db, { userId });
    await markUnconfirmed(db, { userId, targetId: google, kind: "identity" });
    const ask = (listed: string[]) =>
      confirm(db, { userId, sessionId: claims.session_id, remove: ["password"], listed });
    expect(await ask([])).toEqual({ outcome: "last_method" });
    expect(await ask([`identity:${google}`])).toMatchObject({ outcome: "confirmed" });
    expect(keysOf((await accessOf(db, userId)).ways)).toEqual([`identity:${google}`, `session:${claims.session_id}`]);
  });

  test("after the owner confirms the access list, a sign-in method that the list did not show stays new and unconfirmed", async ({
    db,
  }) => {
    const { userId, claims } = await createOwner(db);
    const { listedAt } = await accessOf(db, userId);
    const unseen = await linkGoogle(db, { userId, createdIn: 1 });
    await markUnconfirmed(db, { userId, targetId: unseen, kind: "identity" });
    await confirm(db, { userId, sessionId: claims.session_id, listedAt, listed: [] });
    const { ways } = await accessOf(db, userId);
    expect(ways.find(({ id }) => id === unseen)).toMatchObject({ isNew: true, unconfirmed: true });
  });

  test("confirm_access never moves the confirmation time backwards or into the future", async ({ db }) => {
    const { userId, claims } = await createOwner(db);
    const confirmAt = (listedAt: string) => confirm(db, { userId, sessionId: claims.session_id, listedAt });
    await confirmAt(new Date(Date.now() + 3_600_000).toISOString());
    const { confirmedAt, listedAt } = await accessOf(db, userId);
    expect(confirmedAt).toBe(listedAt);
    await confirmAt(new Date(0).toISOString());
    expect((await accessOf(db, userId)).confirmedAt).toBe(confirmedAt);
  });

  test.for<
    [string, { method: string; logged: string; removed: "identity" | "passkey" | "password" | "authenticator" }]
  >([
    ["a Google account", { method: "oauth", logged: "oauth:google", removed: "identity" }],
    ["a Google account on a phone", { method: "oauth", logged: "oauth", removed: "identity" }],
    ["a passkey", { method: "passkey", logged: "passkey", removed: "passkey" }],
    ["the password", { method: "password", logged: "password", removed: "password" }],
    ["an authenticator", { method: "totp", logged: "password", removed: "authenticator" }],
  ])(
    "removing a way to sign in ends only the sessions that signed in with it: %s",
    async ([, { method, logged, removed }], { db }) => {
      const { userId, claims } = await createOwner(db);
      await db.query("delete from auth.sessions where id = $1", [claims.session_id]);
      const [identity, passkey] = [await linkGoogle(db, { userId }), await addPasskey(db, { userId })];
      const [authenticator, other] = [await enrollFactor(db, { userId }), await enrollFactor(db, { userId })];
      const { session_id: mine } = await signIn(db, { userId, factorId: other });
      const bystanders = [
        await signInBy(db, { userId, method: "otp", logged: "email_link" }),
        await signInBy(db, { userId, method: "oauth", logged: "oauth:github" }),
      ];
      const factorId = removed === "authenticator" ? authenticator : undefined;
      const dependent = await signInBy(db, { userId, method, logged, ...(factorId ? { factorId } : {}) });
      const keys = {
        identity: `identity:${identity}`,
        passkey: `passkey:${passkey}`,
        authenticator: `authenticator:${authenticator}`,
      };
      const remove = removed === "password" ? "password" : keys[removed];
      const answer = await confirm(db, { userId, sessionId: mine, remove: [remove] });
      expect(answer.endedSessions).toMatchObject([{ id: dependent, device: "Firefox on Windows" }]);
      expect(await sessionsOf(db, userId)).toEqual([mine, ...bystanders].sort());
    },
  );

  test("removing a session ends its app sessions, and removing an app ends the app's sessions and tokens", async ({
    db,
  }) => {
    const { setting, pair } = await issueAppToken(db);
    const { claims } = setting;
    const userId = claims.sub;
    await db.query("update auth.users set encrypted_password = 'hash', email_confirmed_at = now() where id = $1", [
      userId,
    ]);
    const theirs = await signIn(db, { userId });
    const [kept, gone] = [await registerApp(db), await registerApp(db)];
    const mySession = await openAppSession(db, { claims, app: kept });
    const theirSession = await openAppSession(db, { claims: theirs, app: gone });
    const remove = [`session:${theirs.session_id}`, `app:${setting.app.name}`];
    await confirm(db, { userId, sessionId: claims.session_id, remove });
    expect(await introspect(db, { app: kept, hash: mySession.appHash })).toMatchObject({ active: true });
    expect(await introspect(db, { app: gone, hash: theirSession.appHash })).toMatchObject({ active: false });
    expect(await tokenOf(db, pair.access)).not.toMatchObject({ refused: null });
    expect(keysOf((await accessOf(db, userId)).ways)).toEqual([
      "password",
      `session:${claims.session_id}`,
      `app:${kept.name}`,
    ]);
  });

  test("confirm_access never ends the calling session or changes another account", async ({ db }) => {
    const [owner, other] = [await createOwner(db), await createOwner(db)];
    const theirs = await addPasskey(db, { userId: other.userId });
    const remove = [
      `session:${owner.claims.session_id}`,
      `session:${other.claims.session_id}`,
      `passkey:${theirs}`,
      "identity:not-an-id",
      `app:${randomUUID()}`,
    ];
    const answer = await confirm(db, { userId: owner.userId, sessionId: owner.claims.session_id, remove });
    expect(answer).toMatchObject({ outcome: "confirmed", removed: [], endedSessions: [] });
    expect(await sessionsOf(db, owner.userId)).toEqual([owner.claims.session_id]);
    expect(keysOf((await accessOf(db, other.userId)).ways)).toEqual([
      "password",
      `passkey:${theirs}`,
      `session:${other.claims.session_id}`,
    ]);
    const stranger = { userId: other.userId, sessionId: owner.claims.session_id, remove: [`passkey:${theirs}`] };
    expect(await confirm(db, stranger)).toEqual({ outcome: "not_found" });
  });

  test.for<[string, { password: boolean; passkey: boolean; keep: string[]; outcome: string }]>([
    ["a password", { password: true, passkey: false, keep: ["password"], outcome: "confirmed" }],
    ["a passkey", { password: false, passkey: true, keep: ["passkey"], outcome: "confirmed" }],
    ["nothing", { password: true, passkey: true, keep: [], outcome: "last_method" }],
  ])(
    "confirm_access removes sign-in methods, but never all of them: the owner keeps %s",
    async ([, { password, passkey, keep, outcome }], { db }) => {
      const { userId, claims } = await createOwner(db, { password });
      await linkGoogle(db, { userId });
      await linkGoogle(db, { userId });
      if (passkey) await addPasskey(db, { userId });
      const { ways } = await accessOf(db, userId);
      const remove = keysOf(ways.filter(({ kind }) => !keep.includes(kind) && kind !== "session"));
      expect((await confirm(db, { userId, sessionId: claims.session_id, remove })).outcome).toBe(outcome);
      const { confirmedAt, ways: left } = await accessOf(db, userId);
      if (outcome === "confirmed") expect(left.map(({ kind }) => kind)).toEqual([...keep, "session"]);
      else expect([left.length, confirmedAt]).toEqual([ways.length, null]);
    },
  );

  test("confirm_access accepts an account whose only way to sign in is its mailbox", async ({ db }) => {
    const { userId, claims } = await createOwner(db, { password: false });
    expect(await confirm(db, { userId, sessionId: claims.session_id })).toMatchObject({ outcome: "confirmed" });
  });

  test("if the account requires MFA, one of two authenticators can be removed, but not both", async ({ db }) => {
    const { userId } = await createOwner(db, { policy: required });
    const [mine, theirs] = [await enrollFactor(db, { userId }), await enrollFactor(db, { userId })];
    const { session_id: sessionId } = await signIn(db, { userId, factorId: mine });
    const both = [mine, theirs].map((id) => `authenticator:${id}`);
    expect(await confirm(db, { userId, sessionId, remove: both })).toEqual({ outcome: "last_of_required" });
    const answer = await confirm(db, { userId, sessionId, remove: [`authenticator:${theirs}`] });
    expect(answer).toMatchObject({ outcome: "confirmed" });
    expect(keysOf((await accessOf(db, userId)).ways)).toContain(`authenticator:${mine}`);
  });

  test("each removed authenticator, identity, passkey or password is recorded once, and the owner gets one email about it", async ({
    db,
  }) => {
    const { userId, email } = await createOwner(db);
    const removed = [await linkGoogle(db, { userId }), await linkGoogle(db, { userId })].map((id) => `identity:${id}`);
    removed.push(`passkey:${await addPasskey(db, { userId })}`);
    await addPasskey(db, { userId });
    const mine = await enrollFactor(db, { userId });
    removed.push(`authenticator:${await enrollFactor(db, { userId })}`, "password");
    const claims = await signIn(db, { userId, factorId: mine });
    const others = [await signIn(db, { userId }), await signIn(db, { userId })];
    removed.push(...others.map(({ session_id }) => `session:${session_id}`));
    const app = await registerApp(db);
    await openAppSession(db, { claims, app });
    removed.push(`app:${app.name}`);
    await db.query("update auth.users set email_confirmed_at = now() - interval '1 hour' where id = $1", [userId]);
    await db.query("delete from public.security_events where user_id = $1", [userId]);
    const answer = await confirm(db, { userId, sessionId: claims.session_id, remove: removed });
    expect(answer.removed).toHaveLength(removed.length);
    const kinds = [
      "authenticator_removed",
      "identity_unlinked",
      "identity_unlinked",
      "passkey_removed",
      "password_removed",
      "session_revoked",
    ];
    expect(await eventsOf(db, userId)).toEqual(["access_confirmed", "app_disconnected", ...kinds]);
    const mails = await db.query("select from private.outgoing_mails where recipient = $1", [email]);
    // One email for each of `kinds`, and one for access_confirmed. app_disconnected sends none.
    expect(mails).toHaveLength(kinds.length + 1);
  });

  test("removing the last authenticator removes the recovery codes", async ({ db }) => {
    const { userId } = await createOwner(db);
    const factorId = await enrollFactor(db, { userId });
    const { session_id: sessionId } = await signIn(db, { userId, factorId });
    await db.query("select private.replace_mfa_recovery_codes($1, $2)", [userId, ["00".repeat(32)]]);
    await confirm(db, { userId, sessionId, remove: [`authenticator:${factorId}`] });
    expect(await db.query("select from private.mfa_recovery_codes where user_id = $1", [userId])).toEqual([]);
  });

  test("the access of an account with an authenticator can be confirmed only in a session verified with that authenticator", async ({
    db,
  }) => {
    const { userId, claims } = await createOwner(db);
    const factorId = await enrollFactor(db, { userId });
    const ask = (sessionId: string) => confirm(db, { userId, sessionId });
    expect(await ask(claims.session_id)).toEqual({ outcome: "insufficient_aal" });
    expect(await ask((await signIn(db, { userId, factorId })).session_id)).toMatchObject({ outcome: "confirmed" });
  });

  test.for<[string, { confirmed?: boolean; method?: string; minutes?: number; policy?: object; outcome: string }]>([
    ["right after a password reset", { outcome: "confirmed" }],
    ["right after a recovery", { method: "recovery", outcome: "confirmed" }],
    ["after a sign-in by password", { method: "password", outcome: "insufficient_aal" }],
    ["nine minutes after a password reset", { minutes: 9, outcome: "confirmed" }],
    ["eleven minutes after a password reset", { minutes: 11, outcome: "insufficient_aal" }],
    ["if one authenticator is confirmed", { confirmed: true, outcome: "insufficient_aal" }],
    ["if an authenticator is required", { policy: required, outcome: "insufficient_aal" }],
  ])(
    "a session without a second factor can remove unconfirmed authenticators only soon after a reset or recovery: %s",
    async ([, given], { db }) => {
      const { confirmed, method = "password_reset", minutes = 0, policy, outcome } = given;
      const { userId } = await createOwner(db, policy ? { policy } : {});
      const theirs = await enrollFactor(db, { userId });
      await markUnconfirmed(db, { userId, targetId: theirs, kind: "authenticator" });
      if (confirmed) await enrollFactor(db, { userId });
      const sessionId = await signInBy(db, { userId, method: "otp", logged: method });
      await db.query("update auth.sessions set created_at = now() - make_interval(mins => $2) where id = $1", [
        sessionId,
        minutes,
      ]);
      const answer = await confirm(db, { userId, sessionId, remove: [`authenticator:${theirs}`] });
      expect(answer.outcome).toBe(outcome);
      const left = await db.query("select from auth.mfa_factors where id = $1", [theirs]);
      expect(left).toHaveLength(outcome === "confirmed" ? 0 : 1);
    },
  );

  test("the last passkey can't be removed when 24 concurrent callers each remove a different passkey", async () => {
    const { db, close } = openPool(12);
    const userId = randomUUID();
    try {
      await db.query(
        `insert into auth.users (id, aud, role, email, email_confirmed_at)
         values ($1, 'authenticated', 'authenticated', $1::uuid || '@race.test', now())`,
        [userId],
      );
      const { session_id: sessionId } = await signIn(db, { userId });
      const passkeys = await Promise.all(Array.from({ length: 24 }, () => addPasskey(db, { userId })));
      const answers = await Promise.all(
        passkeys.map((id) => confirm(db, { userId, sessionId, remove: [`passkey:${id}`] })),
      );
      expect(answers.filter(({ outcome }) => outcome === "confirmed")).toHaveLength(23);
      expect(answers.filter(({ outcome }) => outcome === "last_method")).toHaveLength(1);
      expect((await accessOf(db, userId)).ways.filter(({ kind }) => kind === "passkey")).toHaveLength(1);
    } finally {
      await db.query("delete from auth.users where id = $1", [userId]);
      await close();
    }
  });

  test("an entry is removed only once when 24 concurrent callers remove it", async () => {
    const { db, close } = openPool(12);
    const userId = randomUUID();
    try {
      await db.query(
        `insert into auth.users (id, aud, role, email, email_confirmed_at, encrypted_password)
         values ($1, 'authenticated', 'authenticated', $1::uuid || '@race.test', now(), 'hash')`,
        [userId],
      );
      const [{ session_id: sessionId }, { session_id: theirs }] = [
        await signIn(db, { userId }),
        await signIn(db, { userId }),
      ];
      const passkey = await addPasskey(db, { userId });
      const remove = [`passkey:${passkey}`, `session:${theirs}`];
      const answers = await Promise.all(Array.from({ length: 24 }, () => confirm(db, { userId, sessionId, remove })));
      expect(answers.every(({ outcome }) => outcome === "confirmed")).toBe(true);
      expect(answers.filter(({ removed }) => removed?.length === 2)).toHaveLength(1);
      expect(answers.filter(({ removed }) => removed?.length === 0)).toHaveLength(23);
      expect(answers.flatMap(({ endedSessions }) => endedSessions)).toHaveLength(1);
    } finally {
      await db.query("delete from auth.users where id = $1", [userId]);
      await close();
    }
  });
});

describe("sign_out_everywhere", () => {
  test("sign_out_everywhere ends every session, app session and app token of the account, and none of another account", async ({
    db,
  }) => {
    const { setting, pair } = await issueAppToken(db);
    const { claims } = setting;
    const other = await createOwner(db);
    const app = await registerApp(db);
    const { appHash } = await openAppSession(db, { claims, app });
    await signIn(db, { userId: claims.sub });
    const { ended } = await one<{ ended: number }>(db, {
      sql: "select private.sign_out_everywhere($1, $2) as ended",
      values: [claims.sub, claims.session_id],
    });
    expect(ended).toBe(5);
    expect(await sessionsOf(db, claims.sub)).toEqual([]);
    expect(await introspect(db, { app, hash: appHash })).toMatchObject({ active: false });
    const tokens = await db.query("select from ai.app_tokens where user_id = $1 and revoked_at is null", [claims.sub]);
    expect(tokens).toEqual([]);
    expect(await tokenOf(db, pair.access)).not.toMatchObject({ refused: null });
    expect(await sessionsOf(db, other.userId)).toEqual([other.claims.session_id]);
  });

  test("24 concurrent calls of sign_out_everywhere record only one event", async () => {
    const { db, close } = openPool(12);
    const userId = randomUUID();
    try {
      await db.query(
        `insert into auth.users (id, aud, role, email, email_confirmed_at)
         values ($1, 'authenticated', 'authenticated', $1::uuid || '@race.test', now())`,
        [userId],
      );
      const sessions = await Promise.all(Array.from({ length: 3 }, () => signIn(db, { userId })));
      const values = [userId, sessions[0]?.session_id];
      const sql = "select private.sign_out_everywhere($1, $2) as ended";
      const answers = await Promise.all(Array.from({ length: 24 }, () => one<{ ended: number }>(db, { sql, values })));
      expect(answers.map(({ ended }) => ended).filter(Boolean)).toEqual([3]);
      expect(await eventsOf(db, userId)).toEqual(["all_sessions_revoked"]);
    } finally {
      await db.query("delete from auth.users where id = $1", [userId]);
      await close();
    }
  });
});
