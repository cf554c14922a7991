import { describe, expect } from "vitest";
import { introspect, openAppSession, registerApp } from "../apps/fixtures.ts";
import { currentSecond, type Database, one, signIn, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { issueAppToken, tokenOf } from "../satellites/app-token-fixtures.ts";
import { agePastPause, ask, commitPeople, eventsOf, issue, needHelp, override, wrongHash } from "./fixtures.ts";

const callers = 60;
const rejected = { outcome: "rejected" };

const byLink = (db: Pick<Database, "query">, { tokenHash }: { tokenHash: string }) =>
  ask(db, "consume_recovery_credential", { tokenHash });
const byCode = (db: Pick<Database, "query">, { email, codeHash }: { email: string; codeHash: string }) =>
  ask(db, "consume_recovery_credential", { email, codeHash });

async function setting(db: Database, options: { appMetadata?: object } = {}) {
  const people = await needHelp(db, options);
  const overrideId = await override(db, people);
  return { ...people, overrideId, ...(await issue(db, { ...people, overrideId })) };
}

const lastEvent = async (db: Database, email: string) => (await eventsOf(db, email)).at(-1);
const policyOf = async (db: Database, userId: string) =>
  (
    await one<{ policy: Record<string, unknown> | null }>(db, {
      sql: "select raw_app_meta_data -> 'platform_required_mfa' as policy from auth.users where id = $1",
      values: [userId],
    })
  ).policy;

describe("a recovery credential", () => {
  test("a recovery credential signs its owner in only once, by link or by code", async ({ db }) => {
    const { email, userId, overrideId, credentialId, tokenHash, codeHash } = await setting(db);
    expect(await byLink(db, { tokenHash })).toEqual({
      outcome: "consumed",
      credentialId,
      overrideId,
      email,
      userId,
      banned: false,
      confirmed: false,
      replacedPassword: false,
      waitMs: expect.any(Number),
    });
    expect(await byLink(db, { tokenHash })).toEqual(rejected);
    expect(await lastEvent(db, email)).toBe("reject used");
    expect(await byCode(db, { email, codeHash })).toEqual(rejected);

    const other = await setting(db);
    expect(await byCode(db, { email: other.email.toUpperCase(), codeHash: other.codeHash })).toMatchObject({
      outcome: "consumed",
      userId: other.userId,
    });
    expect(await byLink(db, other)).toEqual(rejected);
    expect(await eventsOf(db, other.email)).toEqual([
      "create created",
      "send issued",
      "consume by_code",
      "reject used",
    ]);
  });

  test("the browser that used a recovery credential can use it again until it expires", async ({ db }) => {
    const { email, userId, actor, overrideId, credentialId, tokenHash, codeHash } = await setting(db);
    const [own, other] = ["a1".repeat(32), "b2".repeat(32)];
    const use = (browserHash: string | null, proof: object = { tokenHash }) =>
      ask(db, "consume_recovery_credential", { ...proof, browserHash });
    const allow = async () => {
      const { session_id } = await signIn(db, { userId });
      const call = "select private.allow_recovery_repeat($1, decode($2, 'hex'), $3, true)";
      await db.query(call, [credentialId, own, session_id]);
      return session_id;
    };
    const emailOfLink = async (browserHash: string) =>
      (
        await one<{ email: string | null }>(db, {
          sql: "select private.find_recovery_link_email(decode($1, 'hex'), decode($2, 'hex')) as email",
          values: [tokenHash, browserHash],
        })
      ).email;
    await allow();
    expect(await use(own)).toMatchObject({ outcome: "consumed" });
    // The credential is refused while its session is being created.
    expect(await use(own)).toEqual(rejected);
    await allow();
    for (const browserHash of [other, null]) expect(await use(browserHash)).toEqual(rejected);
    expect([await emailOfLink(own), await emailOfLink(other)]).toEqual([email, null]);
    expect(await use(own, { email, codeHash: wrongHash })).toEqual(rejected);
    expect(await lastEvent(db, email)).toBe("reject wrong_code");
    expect(await use(own, { email, codeHash })).toMatchObject({ outcome: "consumed", replacedPassword: true });
    // If no session was created, the same browser can use the credential again, but no other browser can.
    await db.query("select private.release_recovery_credential($1)", [credentialId]);
    for (const browserHash of [other, null]) expect(await use(browserHash)).toEqual(rejected);
    expect([await emailOfLink(own), await emailOfLink(other)]).toEqual([email, null]);
    expect(await use(own)).toMatchObject({ outcome: "consumed" });
    // The owner has ended the session that the credential created.
    const made = await allow();
    await db.query("select private.sign_out_everywhere($1, $2)", [userId, made]);
    expect(await use(own)).toEqual(rejected);
    expect(await emailOfLink(own)).toBeNull();
    await allow();
    await agePastPause(db, overrideId);
    await issue(db, { actor, overrideId });
    expect(await use(own)).toEqual(rejected);
    expect(await lastEvent(db, email)).toBe("reject superseded");
  });

  test("a recovery credential expires after 15 minutes", async ({ db }) => {
    const { credentialId, tokenHash, email } = await setting(db);
    const shift = (seconds: number) =>
      db.query(
        `update private.recovery_credentials
         set created_at = created_at - make_interval(secs => $2), expires_at = expires_at - make_interval(secs => $2)
         where id = $1`,
        [credentialId, seconds],
      );
    await shift(15 * 60);
    expect(await byLink(db, { tokenHash })).toEqual(rejected);
    expect(await lastEvent(db, email)).toBe("reject expired");
    await shift(-0.001);
    expect(await byLink(db, { tokenHash })).toMatchObject({ outcome: "consumed" });
  });

  test.for([
    ["revoked", "update private.recovery_overrides set revoked_at = now() where id = $1", "reject inactive"],
    [
      "expired",
      "update private.recovery_overrides set created_at = now() - interval '2 s', expires_at = now() where id = $1",
      "reject inactive",
    ],
    [
      "switched to normal login only",
      "update private.recovery_overrides set recovery_email = false where id = $1",
      "reject switched_off",
    ],
  ] as const)("a recovery credential is void once its recovery override is %s", async ([, sql, event], { db }) => {
    const { email, overrideId, tokenHash, codeHash } = await setting(db);
    await db.query(sql, [overrideId]);
    expect(await byLink(db, { tokenHash })).toEqual(rejected);
    expect(await lastEvent(db, email)).toBe(event);
    expect(await byCode(db, { email, codeHash })).toEqual(rejected);
  });

  test("a recovery credential becomes void when the next one is sent, or if its own email could not be sent", async ({
    db,
  }) => {
    const { actor, email, overrideId, ...first } = await setting(db);
    await agePastPause(db, overrideId);
    const second = await issue(db, { actor, overrideId });
    expect(await byLink(db, first)).toEqual(rejected);
    expect(await lastEvent(db, email)).toBe("reject superseded");
    expect(await byCode(db, { email, codeHash: first.codeHash })).toEqual(rejected);
    await db.query("select private.invalidate_recovery_credential($1)", [second.credentialId]);
    expect(await lastEvent(db, email)).toBe("send failed");
    expect(await byLink(db, second)).toEqual(rejected);
  });

  test("a recovery credential can't be replaced within three minutes, unless it was used or never sent", async ({
    db,
  }) => {
    const { actor, email, overrideId, credentialId, ...first } = await setting(db);
    const hashes = { tokenHash: wrongHash, codeHash: wrongHash, codeSalt: wrongHash.slice(32) };
    const next = () => ask(db, "issue_recovery_credential", { actor, overrideId, reason: "asked", ...hashes });
    const shift = (seconds: number) =>
      db.query(
        `update private.recovery_credentials
         set created_at = created_at - make_interval(secs => $2), expires_at = expires_at - make_interval(secs => $2)
         where id = $1`,
        [credentialId, seconds],
      );
    expect(await next()).toEqual({ refused: "just_sent", retryAfterSeconds: 180 });
    await shift(179);
    expect(await next()).toEqual({ refused: "just_sent", retryAfterSeconds: 1 });
    await db.query("savepoint young");
    expect(await byLink(db, first)).toMatchObject({ outcome: "consumed" });
    expect(await next()).toMatchObject({ email });
    await db.query("rollback to savepoint young");
    await db.query("select private.invalidate_recovery_credential($1)", [credentialId]);
    expect(await next()).toMatchObject({ email });
    await db.query("rollback to savepoint young");
    await shift(1);
    expect(await next()).toMatchObject({ email });
  });

  test("a used recovery credential can be released within two minutes if no session was created", async ({ db }) => {
    const { credentialId, tokenHash } = await setting(db);
    const release = () => db.query("select private.release_recovery_credential($1)", [credentialId]);
    await byLink(db, { tokenHash });
    await release();
    expect(await byLink(db, { tokenHash })).toMatchObject({ outcome: "consumed" });
    await db.query("update private.recovery_credentials set consumed_at = now() - interval '2 minutes' where id = $1", [
      credentialId,
    ]);
    await release();
    expect(await byLink(db, { tokenHash })).toEqual(rejected);
  });

  test("releasing a recovery credential does not make it valid again if a newer one was sent", async ({ db }) => {
    const { actor, email, overrideId, ...first } = await setting(db);
    await byLink(db, first);
    const second = await issue(db, { actor, overrideId });
    await db.query("select private.release_recovery_credential($1)", [first.credentialId]);
    expect(await byLink(db, first)).toEqual(rejected);
    expect(await lastEvent(db, email)).toBe("reject superseded");
    expect(await byLink(db, second)).toMatchObject({ outcome: "consumed" });
  });

  test("the admin who created a recovery override can't use its credentials, even after taking over the email address", async ({
    db,
  }) => {
    const { email, userId, overrideId, ...issued } = await setting(db);
    await db.query("update private.recovery_overrides set created_by = $2 where id = $1", [overrideId, userId]);
    expect(await byLink(db, issued)).toEqual(rejected);
    expect(await byCode(db, { email, codeHash: issued.codeHash })).toEqual(rejected);
    expect((await eventsOf(db, email)).slice(-2)).toEqual(["reject oneself", "reject oneself"]);
  });

  test("a recovery credential for an email address without an account returns no account id, so that an account is created", async ({
    db,
  }) => {
    const { actor } = await needHelp(db);
    const email = `new-${actor}@example.test`;
    const { tokenHash } = await issue(db, { actor, overrideId: await override(db, { actor, email }) });
    expect(await byLink(db, { tokenHash })).toMatchObject({ outcome: "consumed", email, userId: null, waitMs: 0 });
  });

  test("using a recovery credential returns whether the account is banned", async ({ db }) => {
    const { userId, tokenHash } = await setting(db);
    await db.query(
      "update auth.users set banned_until = now() + interval '1 day', email_confirmed_at = now() where id = $1",
      [userId],
    );
    expect(await byLink(db, { tokenHash })).toMatchObject({ banned: true, confirmed: true });
  });

  test("a recovery link shows its email address without being consumed", async ({ db }) => {
    const { email, tokenHash } = await setting(db);
    const look = async () =>
      (
        await one<{ email: string | null }>(db, {
          sql: "select private.find_recovery_link_email(decode($1, 'hex')) as email",
          values: [tokenHash],
        })
      ).email;
    expect([await look(), await look()]).toEqual([email, email]);
    await byLink(db, { tokenHash });
    expect(await look()).toBeNull();
  });
});

describe("required MFA during a recovery", () => {
  test("after a recovery, an earlier sign-in or second factor is no longer accepted", async ({ db }) => {
    const policy = { version: 1, required: true, boundary: 5, primaryBoundary: null, recovery: "none", generation: 3 };
    const { userId, tokenHash } = await setting(db, { appMetadata: { platform_required_mfa: policy } });
    const second = await currentSecond(db);
    const { waitMs } = await byLink(db, { tokenHash });
    const after = (await policyOf(db, userId)) as Record<string, number>;
    expect(after).toMatchObject({ required: true, recovery: "none", generation: 4 });
    expect(after.boundary).toBeGreaterThanOrEqual(second);
    expect(after.primaryBoundary).toBe(after.boundary);
    expect(waitMs).toBeGreaterThanOrEqual(0);
    expect(waitMs).toBeLessThanOrEqual(1_000);
  });

  test("a recovery ends every session, app session and app token even if MFA is optional", async ({ db }) => {
    const { setting: held, pair } = await issueAppToken(db);
    const { claims } = held;
    const app = await registerApp(db);
    const { appHash } = await openAppSession(db, { claims, app });
    const { email } = await one<{ email: string }>(db, {
      sql: "select email from auth.users where id = $1",
      values: [claims.sub],
    });
    const { actor } = await needHelp(db);
    const issued = await issue(db, { actor, overrideId: await override(db, { actor, email }) });
    expect(await tokenOf(db, pair.access)).toMatchObject({ refused: null });
    expect(await byLink(db, issued)).toMatchObject({ outcome: "consumed", userId: claims.sub });
    expect(await db.query("select from auth.sessions where user_id = $1", [claims.sub])).toEqual([]);
    expect(await introspect(db, { app, hash: appHash })).toMatchObject({ active: false });
    expect(await tokenOf(db, pair.access)).not.toMatchObject({ refused: null });
    const live = await db.query("select from ai.app_tokens where user_id = $1 and revoked_at is null", [claims.sub]);
    expect(live).toEqual([]);
    expect(await policyOf(db, claims.sub)).toMatchObject({ required: false });
  });

  test("after a recovery, the account stays blocked while authenticators are being removed or the policy can't be read", async ({
    db,
  }) => {
    const policy = { version: 1, required: false, boundary: 5, recovery: "in_progress", generation: 3 };
    const closed = await setting(db, { appMetadata: { platform_required_mfa: policy } });
    await byLink(db, closed);
    expect(await policyOf(db, closed.userId)).toMatchObject({ recovery: "in_progress", generation: 4 });
    const broken = await setting(db, { appMetadata: { platform_required_mfa: "?" } });
    expect(await byLink(db, broken)).toMatchObject({ outcome: "consumed", waitMs: 0 });
    expect(await policyOf(db, broken.userId)).toBe("?");
  });
});

describe("wrong recovery codes", () => {
  const guess = (db: Database, email: string) => byCode(db, { email, codeHash: wrongHash });

  test("five wrong recovery codes block all codes for the email address for 24 hours, even new ones, but not the link", async ({
    db,
  }) => {
    const { actor, email, overrideId, ...first } = await setting(db);
    for (let wrong = 0; wrong < 3; wrong += 1) expect(await guess(db, email)).toEqual(rejected);
    await agePastPause(db, overrideId);
    const second = await issue(db, { actor, overrideId });
    for (let wrong = 3; wrong < 5; wrong += 1) await guess(db, email);
    expect(await byCode(db, { email, codeHash: second.codeHash })).toEqual(rejected);
    expect(await lastEvent(db, email)).toBe("reject locked");
    await agePastPause(db, overrideId);
    const third = await issue(db, { actor, overrideId });
    expect(await byCode(db, { email, codeHash: third.codeHash })).toEqual(rejected);

    const shift = (seconds: number) =>
      db.query(
        `update private.recovery_code_guesses
         set locked_until = locked_until - make_interval(secs => $2), last_wrong_at = last_wrong_at - make_interval(secs => $2)
         where email = $1`,
        [email, seconds],
      );
    await shift(24 * 3_600 - 0.001);
    expect(await byCode(db, { email, codeHash: third.codeHash })).toEqual(rejected);
    await db.query("savepoint locked");
    expect(await byLink(db, third)).toMatchObject({ outcome: "consumed" });
    const fourth = await issue(db, { actor, overrideId });
    expect(await byCode(db, { email, codeHash: fourth.codeHash })).toEqual(rejected);
    expect(await lastEvent(db, email)).toBe("reject locked");
    await db.query("rollback to savepoint locked");
    await shift(0.001);
    expect(await byCode(db, { email, codeHash: third.codeHash })).toMatchObject({ outcome: "consumed" });
    expect(await byLink(db, first)).toEqual(rejected);
  });

  test("after up to four wrong recovery codes, the right code succeeds", async ({ db }) => {
    const { email, codeHash } = await setting(db);
    for (let wrong = 0; wrong < 4; wrong += 1) await guess(db, email);
    expect(await byCode(db, { email, codeHash })).toMatchObject({ outcome: "consumed" });
    expect(await db.query("select from private.recovery_code_guesses where email = $1", [email])).toEqual([]);
  });

  test("a recovery code guess is not counted if no code was sent to the email address", async ({ db }) => {
    const { actor } = await needHelp(db);
    const email = `${actor}@example.test`;
    expect(await guess(db, email)).toEqual(rejected);
    expect(await db.query("select from private.recovery_code_guesses where email = $1", [email])).toEqual([]);
  });

  test("another account's recovery code counts as wrong", async ({ db }) => {
    const [mine, other] = [await setting(db), await setting(db)];
    expect(await byCode(db, { email: mine.email, codeHash: other.codeHash })).toEqual(rejected);
    expect(await lastEvent(db, mine.email)).toBe("reject wrong_code");
  });

  test("every email, even an unknown one, has a salt for recovery codes, and each new recovery email changes the salt", async ({
    db,
  }) => {
    const { actor, email, overrideId } = await setting(db);
    const salt = async (of: string) =>
      (await one<{ salt: string }>(db, { sql: "select private.recovery_code_salt($1) as salt", values: [of] })).salt;
    const [first, ofUnknown] = [await salt(email), await salt("unknown@example.test")];
    for (const one of [first, ofUnknown]) expect(one).toMatch(/^[0-9a-f]{32}$/);
    expect(await salt("UNKNOWN@example.test")).toBe(ofUnknown);
    await agePastPause(db, overrideId);
    await issue(db, { actor, overrideId });
    expect(await salt(email)).not.toBe(first);
  });
});

describe(`recovery with ${callers} concurrent callers`, () => {
  test("of concurrent uses of a recovery link or code, only one succeeds", async () => {
    const { db, close } = openPool(callers);
    const people = await commitPeople(db);
    try {
      const issued = await issue(db, { ...people, overrideId: await override(db, people) });
      const answers = await Promise.all(
        Array.from({ length: callers }, (_, index) =>
          index % 2 ? byLink(db, issued) : byCode(db, { email: people.email, codeHash: issued.codeHash }),
        ),
      );
      expect(answers.filter(({ outcome }) => outcome === "consumed")).toHaveLength(1);
      expect(await policyOf(db as Database, people.userId)).toMatchObject({ generation: 1 });
    } finally {
      await people.remove();
      await close();
    }
  });

  test("concurrent retries of a recovery succeed only once, and only for the browser that began the recovery", async () => {
    const { db, close } = openPool(callers);
    const people = await commitPeople(db);
    try {
      const issued = await issue(db, { ...people, overrideId: await override(db, people) });
      const [own, other] = ["a1".repeat(32), "b2".repeat(32)];
      const use = (browserHash: string) =>
        ask(db, "consume_recovery_credential", { tokenHash: issued.tokenHash, browserHash });
      expect(await use(own)).toMatchObject({ outcome: "consumed" });
      const { session_id } = await signIn(db, { userId: people.userId });
      const allow = "select private.allow_recovery_repeat($1, decode($2, 'hex'), $3, false)";
      await db.query(allow, [issued.credentialId, own, session_id]);
      const answers = await Promise.all(Array.from({ length: callers }, (_, index) => use(index % 2 ? own : other)));
      const winners = answers.flatMap(({ outcome }, index) => (outcome === "consumed" ? [index % 2] : []));
      expect(winners).toEqual([1]);
    } finally {
      await people.remove();
      await close();
    }
  });

  test("concurrent callers send only one recovery email", async () => {
    const { db, close } = openPool(callers);
    const people = await commitPeople(db);
    try {
      const overrideId = await override(db, people);
      const sent = await Promise.allSettled(
        Array.from({ length: callers }, () => issue(db, { ...people, overrideId })),
      );
      expect(sent.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    } finally {
      await people.remove();
      await close();
    }
  });

  test("checks only five of many concurrent wrong recovery codes, and then refuses even the right code", async () => {
    const { db, close } = openPool(callers);
    const people = await commitPeople(db);
    try {
      const issued = await issue(db, { ...people, overrideId: await override(db, people) });
      const guesses = await Promise.all(
        Array.from({ length: callers }, () => byCode(db, { email: people.email, codeHash: wrongHash })),
      );
      expect(guesses.every(({ outcome }) => outcome === "rejected")).toBe(true);
      const events = await eventsOf(db, people.email);
      expect(events.filter((event) => event === "reject wrong_code")).toHaveLength(5);
      expect(events.filter((event) => event === "reject locked")).toHaveLength(callers - 5);
      expect(await byCode(db, { email: people.email, codeHash: issued.codeHash })).toEqual(rejected);
      expect(await byLink(db, issued)).toMatchObject({ outcome: "consumed" });
    } finally {
      await people.remove();
      await close();
    }
  });
});
