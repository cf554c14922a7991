import { describe, expect } from "vitest";
import { createActor, failureOf } from "../actors.ts";
import { createUser, type Database, enrollFactor, one, signIn, test } from "../database.ts";
import { openPool } from "../pools.ts";

const required = { version: 1, required: true, boundary: 0, primaryBoundary: null, recovery: "none", generation: 1 };

interface Deletion {
  userId: string;
  sessionId: string;
  factorId: string;
}

async function deleteAuthenticator(db: Database, { userId, sessionId, factorId }: Deletion) {
  const event = { userId, kind: "authenticator_removed", ip: "192.0.2.1", details: { name: "Phone" } };
  const { answer } = await one<{ answer: { outcome: string } }>(db, {
    sql: "select private.delete_authenticator($1, $2, $3, $4) as answer",
    values: [userId, sessionId, factorId, JSON.stringify(event)],
  });
  return answer;
}

/** Returns the owner's log and the emails queued for them. */
const toldTo = async (db: Database, { userId }: Pick<Deletion, "userId">) => ({
  log: await db.query("select kind, details from public.security_events where user_id = $1 and kind <> 'sign_in'", [
    userId,
  ]),
  mails: await db.query(
    `select m.id, m.recipient from private.outgoing_mails m
     join public.security_events e on e.id = m.event_id
     where e.user_id = $1`,
    [userId],
  ),
});

/**
 * Creates an account with two authenticators and a recovery code. Its session was verified with the second
 * authenticator.
 */
async function createOwner(db: Database, { policy }: { policy?: object } = {}) {
  const appMetadata = policy ? { platform_required_mfa: policy } : {};
  const { id: userId } = await createUser(db, { appMetadata });
  const otherId = await enrollFactor(db, { userId });
  const factorId = await enrollFactor(db, { userId });
  const { session_id: sessionId } = await signIn(db, { userId, factorId });
  await db.query(
    `insert into auth.mfa_amr_claims (id, session_id, authentication_method, created_at, updated_at)
     select gen_random_uuid(), $1, method, now(), now() from unnest(array['password', 'totp']) as method`,
    [sessionId],
  );
  await db.query("select private.replace_mfa_recovery_codes($1, $2)", [userId, ["00".repeat(32)]]);
  return { userId, sessionId, factorId, otherId };
}

const leftOf = async (db: Database, { userId, sessionId }: { userId: string; sessionId: string }) =>
  one<{ factors: number; codes: number; aal: string; proofs: string[] }>(db, {
    sql: `select
        (select count(*)::integer from auth.mfa_factors where user_id = $1) as factors,
        (select count(*)::integer from private.mfa_recovery_codes where user_id = $1) as codes,
        (select aal::text from auth.sessions where id = $2) as aal,
        array(select authentication_method from auth.mfa_amr_claims where session_id = $2 order by 1) as proofs`,
    values: [userId, sessionId],
  });

describe("delete_authenticator", () => {
  test("removing one of two authenticators keeps AAL2 for a session that used the other authenticator", async ({
    db,
  }) => {
    const { otherId, ...owner } = await createOwner(db, { policy: required });
    const answer = await db.asRole("service_role", () => deleteAuthenticator(db, { ...owner, factorId: otherId }));
    expect(answer).toMatchObject({ outcome: "deleted" });
    expect(await leftOf(db, owner)).toEqual({ factors: 1, codes: 1, aal: "aal2", proofs: ["password", "totp"] });
    expect(await deleteAuthenticator(db, { ...owner, factorId: otherId })).toEqual({ outcome: "not_found" });
  });

  test("removing an authenticator notifies the owner in the same transaction, and a call that removes nothing notifies no one", async ({
    db,
  }) => {
    const { otherId, ...owner } = await createOwner(db, { policy: required });
    const { email } = await one<{ email: string }>(db, {
      sql: "select email from auth.users where id = $1",
      values: [owner.userId],
    });
    await deleteAuthenticator(db, { ...owner, factorId: otherId });
    const told = {
      log: [{ kind: "authenticator_removed", details: { name: "Phone" } }],
      mails: [{ id: expect.any(String), recipient: email }],
    };
    expect(await toldTo(db, owner)).toEqual(told);
    for (const factorId of [otherId, owner.factorId]) {
      expect(["not_found", "last_of_required"]).toContain(
        (await deleteAuthenticator(db, { ...owner, factorId })).outcome,
      );
    }
    expect(await toldTo(db, owner)).toEqual(told);
  });

  test("removing an authenticator returns its sessions to AAL1, and changes nothing else", async ({ db }) => {
    const owner = await createOwner(db);
    expect(await deleteAuthenticator(db, owner)).toMatchObject({ outcome: "deleted" });
    expect(await leftOf(db, owner)).toEqual({ factors: 1, codes: 1, aal: "aal1", proofs: ["password"] });
    expect(await deleteAuthenticator(db, { ...owner, factorId: owner.otherId })).toEqual({
      outcome: "insufficient_aal",
    });
  });

  test("removing the last authenticator of an account with optional MFA removes its recovery codes", async ({ db }) => {
    const { otherId, ...owner } = await createOwner(db);
    await deleteAuthenticator(db, { ...owner, factorId: otherId });
    expect(await deleteAuthenticator(db, owner)).toMatchObject({ outcome: "deleted" });
    expect(await leftOf(db, owner)).toMatchObject({ factors: 0, codes: 0 });
  });

  test.for([
    ["requires MFA", required],
    ["is under recovery", { ...required, required: false, recovery: "in_progress" }],
    ["has an unreadable policy", { ...required, version: 2 }],
  ] as const)(
    "the last verified authenticator can't be removed if the account %s, even if an unverified one remains",
    async ([, policy], { db }) => {
      const { otherId, ...owner } = await createOwner(db, { policy });
      await enrollFactor(db, { userId: owner.userId, status: "unverified" });
      await deleteAuthenticator(db, { ...owner, factorId: otherId });
      expect(await deleteAuthenticator(db, owner)).toEqual({ outcome: "last_of_required" });
      expect(await leftOf(db, owner)).toMatchObject({ factors: 2, codes: 1, aal: "aal2" });
    },
  );

  test("an authenticator can be removed only from the caller's own account, by a session that used a second factor", async ({
    db,
  }) => {
    const [owner, other] = [await createOwner(db), await createOwner(db)];
    expect(await deleteAuthenticator(db, { ...owner, factorId: other.factorId })).toEqual({ outcome: "not_found" });
    const { session_id: unproved } = await signIn(db, { userId: owner.userId });
    for (const sessionId of [unproved, other.sessionId]) {
      expect(await deleteAuthenticator(db, { ...owner, sessionId })).toEqual({ outcome: "insufficient_aal" });
    }
    expect(await leftOf(db, other)).toMatchObject({ factors: 2, codes: 1 });
  });

  test("if the account requires MFA, 50 concurrent calls against two authenticators remove only one of them", async () => {
    const { db, close } = openPool(20);
    const owner = await createOwner(db, { policy: required });
    try {
      // Each authenticator is removed by a session that used the other authenticator.
      const { session_id: otherSession } = await signIn(db, { userId: owner.userId, factorId: owner.otherId });
      const calls = Array.from({ length: 50 }, (_, n) =>
        n % 2 === 0
          ? { userId: owner.userId, factorId: owner.factorId, sessionId: otherSession }
          : { userId: owner.userId, factorId: owner.otherId, sessionId: owner.sessionId },
      );
      const answers = await Promise.all(calls.map((call) => deleteAuthenticator(db, call)));
      expect(answers.filter(({ outcome }) => outcome === "deleted")).toHaveLength(1);
      expect(await leftOf(db, owner)).toMatchObject({ factors: 1, codes: 1 });
      expect((await toldTo(db, owner)).log).toHaveLength(1);
    } finally {
      await db.query("delete from auth.users where id = $1", [owner.userId]);
      await close();
    }
  });
});

test("only the service role can remove authenticators", async ({ db }) => {
  const claims = await createActor(db, {});
  const ask = () => db.query("select private.delete_authenticator($1, null, null, null, null)", [claims.sub]);
  expect(await failureOf(() => db.asUser(claims, ask))).toMatchObject({ code: "42501" });
  expect(await failureOf(() => db.asRole("anon", ask))).toMatchObject({ code: "42501" });
  expect(await failureOf(() => db.asRole("gateway", ask))).toMatchObject({ code: "42501" });
});
