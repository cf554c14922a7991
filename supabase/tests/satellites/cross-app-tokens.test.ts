import { describe, expect } from "vitest";
import { createActor, failureOf, mfaStates } from "../actors.ts";
import { call, handOver, newHash, openPools, prove, redeem, registerApp, setPolicy } from "../apps/fixtures.ts";
import {
  bindApproval,
  createUser,
  currentSecond,
  type Database,
  enrollFactor,
  one,
  signIn,
  test,
} from "../database.ts";

const reasons: Record<string, string> = { "malformed policy": "unavailable", "session over": "unauthenticated" };

describe("the MFA proofs of a session", () => {
  test.for(mfaStates)(
    "a session's proofs are accepted only if MFA is satisfied ($mfa: $satisfied)",
    async ({ mfa, satisfied }, { db }) => {
      const app = await registerApp(db);
      const claims = await createActor(db, { mfa });
      const facts = await prove(db, { claims, app });
      if (satisfied) expect(facts).toMatchObject({ user: claims.sub, session: claims.session_id, target: app.name });
      else expect(facts).toEqual({ refused: reasons[mfa] ?? "mfa_required" });
    },
  );

  test("a session's proofs contain factor, times and policy generation, with null for unknown values", async ({
    db,
  }) => {
    const app = await registerApp(db);
    const second = await currentSecond(db);
    const user = await createUser(db);
    expect(await prove(db, { claims: await signIn(db, { userId: user.id }), app })).toMatchObject({
      factor: null,
      secondFactorAt: null,
      primaryAt: second - 2,
      generation: null,
      validUntil: null,
    });
    await setPolicy(db, { userId: user.id, policy: { required: true, boundary: second - 60, generation: 7 } });
    const factorId = await enrollFactor(db, { userId: user.id });
    expect(await prove(db, { claims: await signIn(db, { userId: user.id, factorId }), app })).toMatchObject({
      factor: factorId,
      secondFactorAt: second - 1,
      primaryAt: second - 2,
      generation: 7,
      validUntil: null,
    });
  });

  test("after approval on a phone, a session's proofs contain the approving factor and expire with the approval", async ({
    db,
  }) => {
    const app = await registerApp(db);
    const user = await createUser(db);
    const factorId = await enrollFactor(db, { userId: user.id });
    const claims = await signIn(db, { userId: user.id });
    const second = await currentSecond(db);
    await bindApproval(db, { claims, factorId, secondFactorAt: second - 5 });
    const facts = await prove(db, { claims, app });
    expect(facts).toMatchObject({ factor: factorId, secondFactorAt: second - 5 });
    expect(Date.parse(String(facts.validUntil)) / 1000).toBe(second + 3600);
    await redeem(db, { app, handoff: await handOver(db, { claims, app }) });
    const row = await one<{ same: boolean }>(db, {
      sql: "select bool_and(ends_at = $2) as same from private.app_sessions where user_id = $1",
      values: [user.id, facts.validUntil],
    });
    expect(row.same).toBe(true);
  });

  test("refuses to return proofs for a session of another account", async ({ db }) => {
    const app = await registerApp(db);
    const [one, other] = [await createActor(db, {}), await createActor(db, {})];
    const forged = { ...one, session_id: other.session_id };
    expect(await prove(db, { claims: forged, app })).toEqual({ refused: "unauthenticated" });
  });

  test("refuses to return a session's proofs for an unregistered app", async ({ db }) => {
    const app = { ...(await registerApp(db)), name: "no-such-app" };
    expect(await prove(db, { claims: await createActor(db, {}), app })).toEqual({ refused: "not_found" });
  });
});

describe("a cross-app token", () => {
  const begun = async (db: Database, seconds?: number) => {
    const app = await registerApp(db);
    const claims = await createActor(db, {});
    return { app, claims, handoff: await handOver(db, { claims, app, ...(seconds === undefined ? {} : { seconds }) }) };
  };

  test.for([
    [1, true],
    [300, true],
    [0, false],
    [-1, false],
    [301, false],
    [1_000_000_000, false],
  ] as const)("a cross-app token with a lifetime of %i s is allowed: %s", async ([seconds, allowed], { db }) => {
    if (allowed) await begun(db, seconds);
    else expect((await failureOf(() => begun(db, seconds))).code).toBe("23514");
  });

  test("a cross-app token opens an app session and a central session, both of which last 8 hours", async ({ db }) => {
    const { app, claims, handoff } = await begun(db);
    const answer = await redeem(db, { app, handoff });
    expect(answer).toEqual({
      app: expect.objectContaining({ audience: "app", user: claims.sub, factor: null }),
      central: expect.objectContaining({ audience: "central", user: claims.sub }),
    });
    const rows = await db.query(
      "select extract(epoch from expires_at - now())::int as seconds, extract(epoch from ends_at - now())::int as ends from private.app_sessions where user_id = $1",
      [claims.sub],
    );
    expect(rows).toEqual([
      { seconds: 28_800, ends: 2_592_000 },
      { seconds: 28_800, ends: 2_592_000 },
    ]);
  });

  test("a cross-app token opens no central session for an app without central scopes", async ({ db }) => {
    const app = await registerApp(db, { scopes: ["profile"] });
    const handoff = await handOver(db, { claims: await createActor(db, {}), app });
    expect(Object.keys(await redeem(db, { app, handoff }))).toEqual(["app"]);
  });

  test("a cross-app token can be redeemed only once", async ({ db }) => {
    const { app, handoff } = await begun(db);
    expect(await redeem(db, { app, handoff })).toHaveProperty("app");
    expect(await redeem(db, { app, handoff })).toEqual({ refused: "token" });
  });

  test("only one of 60 concurrent redemptions of a cross-app token succeeds", async () => {
    const { db, service, close } = openPools(20);
    try {
      const [app, claims] = [await registerApp(service), await createActor(db, {})];
      const handoff = await handOver(service, { claims, app });
      const answers = await Promise.all(Array.from({ length: 60 }, () => redeem(service, { app, handoff })));
      expect(answers.filter((answer) => !answer.refused)).toHaveLength(1);
      expect(answers.filter((answer) => answer.refused === "token")).toHaveLength(59);
      const rows = await db.query("select from private.app_sessions where user_id = $1", [claims.sub]);
      expect(rows).toHaveLength(2);
    } finally {
      await close();
    }
  });

  test("only the app of a cross-app token can redeem it, and an attempt by another app doesn't use it up", async ({
    db,
  }) => {
    const { app, handoff } = await begun(db);
    const other = await registerApp(db);
    expect(await redeem(db, { app: other, handoff })).toEqual({ refused: "token" });
    const facts = { ...handoff.facts, targetId: other.id };
    expect(await redeem(db, { app: other, handoff: { ...handoff, facts } })).toEqual({ refused: "token" });
    for (const wrong of [
      { ...app, secretHash: newHash() },
      { ...app, name: other.name },
      { ...app, name: "no-such-app" },
    ])
      expect(await redeem(db, { app: wrong, handoff })).toEqual({ refused: "unauthenticated" });
    expect(await redeem(db, { app, handoff })).toHaveProperty("app");
  });

  test("a cross-app token can't be redeemed with a forged proof or for another user", async ({ db }) => {
    const { app, handoff } = await begun(db);
    const victim = await createActor(db, {});
    const forgeries = [
      { ...handoff, proof: "signed.forged" },
      { ...handoff, facts: { ...handoff.facts, user: victim.sub, session: victim.session_id } },
    ];
    for (const forged of forgeries) expect(await redeem(db, { app, handoff: forged })).toEqual({ refused: "token" });
  });

  test("a cross-app token expires exactly on time", async ({ db }) => {
    const { app, handoff } = await begun(db);
    const endAt = (moment: string) =>
      db.query(
        `update private.cross_app_tokens set created_at = now() - interval '1 minute', expires_at = ${moment} where token_hash = $1`,
        [handoff.tokenHash],
      );
    await endAt("now()");
    expect(await redeem(db, { app, handoff })).toEqual({ refused: "token" });
    await endAt("now() + interval '1 microsecond'");
    expect(await redeem(db, { app, handoff })).toHaveProperty("app");
  });

  test("revoking a user's cross-app tokens revokes all outstanding ones, and no other user's", async ({ db }) => {
    const { app, claims, handoff } = await begun(db);
    const second = await handOver(db, { claims, app });
    const used = await handOver(db, { claims, app });
    await redeem(db, { app, handoff: used });
    const other = await createActor(db, {});
    const theirs = await handOver(db, { claims: other, app });
    expect(await call<number>(db, "revoke_cross_app_tokens", { user_id: claims.sub })).toBe(2);
    for (const one of [handoff, second]) expect(await redeem(db, { app, handoff: one })).toEqual({ refused: "token" });
    expect(await redeem(db, { app, handoff: theirs })).toHaveProperty("app");
    expect(await call<number>(db, "revoke_cross_app_tokens", { user_id: claims.sub })).toBe(0);
  });

  test.for([
    ["sign-out", "delete from auth.sessions where user_id = $1"],
    ["a ban", "update auth.users set banned_until = now() + interval '1 hour' where id = $1"],
    ["the account's closure", "update auth.users set deleted_at = now() where id = $1"],
    ["a password change", "update auth.users set encrypted_password = gen_random_uuid()::text where id = $1"],
  ] as const)("a cross-app token is void after %s", async ([, sql], { db }) => {
    const { app, claims, handoff } = await begun(db);
    await db.query(sql, [claims.sub]);
    expect(await redeem(db, { app, handoff })).toEqual({ refused: "token" });
  });

  test("a cross-app token is void once the MFA policy changes, even to optional, or the factor is removed", async ({
    db,
  }) => {
    const app = await registerApp(db);
    for (const change of ["required", "optional", "factor"] as const) {
      const claims = await createActor(db, { mfa: "a factor, at AAL2" });
      const handoff = await handOver(db, { claims, app });
      if (change === "factor") await db.query("delete from auth.mfa_factors where user_id = $1", [claims.sub]);
      else
        await setPolicy(db, {
          userId: claims.sub,
          policy: { required: change === "required", boundary: 0, generation: 1 },
        });
      expect(await redeem(db, { app, handoff }), change).toEqual({ refused: "token" });
    }
  });

  test("a cross-app token is temporarily refused while the policy can't be read", async ({ db }) => {
    const { app, claims, handoff } = await begun(db);
    await setPolicy(db, { userId: claims.sub, policy: { version: 2 } });
    expect(await redeem(db, { app, handoff })).toEqual({ refused: "unavailable" });
    await setPolicy(db, { userId: claims.sub, policy: null });
    expect(await redeem(db, { app, handoff })).toHaveProperty("app");
  });

  test("cross-app tokens are stored only as hashes, without any session tokens", async ({ db }) => {
    const columns = await db.query<{ name: string }>(
      "select attname as name from pg_attribute where attrelid = 'private.cross_app_tokens'::regclass and attnum > 0",
    );
    expect(columns.map(({ name }) => name).filter((name) => /token|refresh|jwt|access/.test(name))).toEqual([
      "token_hash",
    ]);
  });
});

describe("permissions of the handoff functions", () => {
  test("users, anon and the gateway can't call the handoff functions", async ({ db }) => {
    const rows = await db.query<{ name: string; role: string }>(`
      select p.oid::regprocedure::text as name, r.rolname as role
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      cross join pg_roles r
      where n.nspname in ('private', 'ai') and p.proname ~ '(app|mfa_proof|proof_status|handoff_proof|handoff)'
        -- Policies ask the first; the gateway's own entrance is the second, which takes a credential and trusts nothing.
        and p.proname not in ('account_required_mfa_satisfied', 'check_app_caller')
        and r.rolname in ('anon', 'authenticated', 'gateway') and has_function_privilege(r.oid, p.oid, 'execute')`);
    expect(rows).toEqual([]);
  });

  test("no role can call internal handoff functions, which trust their arguments", async ({ db }) => {
    for (const name of [
      "private.proof_status(private.mfa_proof)",
      "private.authenticate_app(text, bytea)",
      "private.consume_cross_app_token(bytea, uuid, uuid, text)",
      "private.live_app_session(bytea)",
      "private.find_app_caller(bytea, text)",
      "private.user_workspaces(uuid)",
      "private.issue_app_token(ai.app_tokens)",
      "private.lock_app_credentials(uuid)",
      "ai.find_app_token(bytea)",
    ]) {
      const row = await one<{ may: boolean }>(db, {
        sql: "select has_function_privilege('service_role', $1, 'execute') as may",
        values: [name],
      });
      expect(row.may, name).toBe(false);
    }
  });
});
