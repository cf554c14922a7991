import { createHash, randomBytes, randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, failureOf } from "../actors.ts";
import {
  createUser,
  currentSecond,
  type Database,
  enrollFactor,
  one,
  proveApproval,
  signIn,
  test,
} from "../database.ts";
import { openPool } from "../pools.ts";

const callers = 60;
const newHash = () => createHash("sha256").update(randomUUID()).digest("hex");
const newHashes = () => Array.from({ length: 10 }, newHash);

type Use = { userId: string; session: string; hash?: string };

const replace = (db: Database, { userId, hashes }: { userId: string; hashes: string[] }) =>
  db.query("select private.replace_mfa_recovery_codes($1, $2)", [userId, hashes]);
const begin = async (db: Database, { userId, session, hash }: Use) =>
  (
    await one<{ id: string | null }>(db, {
      sql: "select private.begin_mfa_recovery($1, $2, $3) as id",
      values: [userId, session, hash ?? null],
    })
  ).id;
const end = (db: Database, { id, completed }: { id: string | null; completed: boolean }) =>
  db.query("select private.end_mfa_recovery($1, $2)", [id, completed]);
const stateOf = async (db: Database, { userId, session }: Use) =>
  (
    await one<{ state: { left: number; createdAt: string | null; unfinished: boolean } }>(db, {
      sql: "select private.mfa_recovery_state($1, $2) as state",
      values: [userId, session],
    })
  ).state;
const backdate = (db: Database, { column, seconds }: { column: "used_at" | "lease_expires_at"; seconds: number }) =>
  db.query(`update private.mfa_recovery_codes set ${column} = ${column} - make_interval(secs => $1)`, [seconds]);

const sessionsOf = async (db: Database, userId: string) =>
  (await db.query<{ id: string }>("select id from auth.sessions where user_id = $1 order by id", [userId])).map(
    ({ id }) => id,
  );

async function withCodes(db: Database) {
  const { id: userId } = await createUser(db);
  const hashes = newHashes();
  await replace(db, { userId, hashes });
  const [hash = "", other = ""] = hashes;
  return { userId, hashes, hash, other, session: randomUUID() };
}

describe("recovery codes", () => {
  test("new recovery codes replace all of an account's codes", async ({ db }) => {
    const { userId, hash, session } = await withCodes(db);
    const renewed = newHashes();
    await replace(db, { userId, hashes: renewed });
    expect(await begin(db, { userId, session, hash })).toBeNull();
    expect(await begin(db, { userId, session, hash: renewed[3] ?? "" })).not.toBeNull();
    expect((await stateOf(db, { userId, session })).left).toBe(9);
    await replace(db, { userId, hashes: [] });
    expect(await stateOf(db, { userId, session })).toEqual({ left: 0, createdAt: null, unfinished: false });
  });

  test("if recovery codes are replaced concurrently, only one set of codes remains", async () => {
    const { db, close } = openPool(20);
    const userId = randomUUID();
    try {
      await db.query(
        "insert into auth.users (id, aud, role, email) values ($1::uuid, 'authenticated', 'authenticated', $1 || '@race.test')",
        [userId],
      );
      await Promise.all(Array.from({ length: 20 }, () => replace(db, { userId, hashes: newHashes() })));
      expect((await stateOf(db, { userId, session: randomUUID() })).left).toBe(10);
    } finally {
      await db.query("delete from auth.users where id = $1", [userId]);
      await close();
    }
  });

  test("new recovery codes end every other session, without events for these sign-outs", async ({ db }) => {
    const { userId, hash } = await withCodes(db);
    const [kept, other] = [await signIn(db, { userId }), await signIn(db, { userId })];
    await db.query("delete from public.security_events where user_id = $1", [userId]);
    expect(await begin(db, { userId, session: kept.session_id, hash: newHash() })).toBeNull();
    expect(await sessionsOf(db, userId)).toEqual([kept.session_id, other.session_id].sort());
    expect(await begin(db, { userId, session: kept.session_id, hash })).not.toBeNull();
    expect(await sessionsOf(db, userId)).toEqual([kept.session_id]);
    expect(await db.query("select kind from public.security_events where user_id = $1", [userId])).toEqual([]);
  });

  test("recovery codes are deleted with their account", async ({ db }) => {
    const { userId } = await withCodes(db);
    await db.query("delete from auth.users where id = $1", [userId]);
    expect(await db.query("select from private.mfa_recovery_codes where user_id = $1", [userId])).toEqual([]);
  });

  test("only the account's owner can read its recovery codes", async ({ db }) => {
    const [mine, other] = [await withCodes(db), await withCodes(db)];
    expect(await begin(db, { ...mine, hash: other.hash })).toBeNull();
    expect((await stateOf(db, other)).left).toBe(10);
  });

  test("finds nothing to resume if no recovery code has been used", async ({ db }) => {
    const { userId, session } = await withCodes(db);
    expect(await begin(db, { userId, session })).toBeNull();
  });
});

describe("using a recovery code", () => {
  test("using a recovery code reserves the code, and completing the use consumes it", async ({ db }) => {
    const { userId, hash, session } = await withCodes(db);
    const id = await begin(db, { userId, hash, session });
    expect(id).not.toBeNull();
    expect(await begin(db, { userId, hash, session })).toBeNull();
    expect(await stateOf(db, { userId, session })).toMatchObject({ left: 9, unfinished: true });
    await end(db, { id, completed: true });
    expect(await begin(db, { userId, hash, session })).toBeNull();
    expect(await begin(db, { userId, session })).toBeNull();
    expect(await stateOf(db, { userId, session })).toMatchObject({ left: 9, unfinished: false });
  });

  test("if the use of a recovery code fails midway, the same session can resume it without the code", async ({
    db,
  }) => {
    const { userId, hash, session } = await withCodes(db);
    const id = await begin(db, { userId, hash, session });
    await end(db, { id, completed: false });
    expect(await begin(db, { userId, session: randomUUID() })).toBeNull();
    expect(await stateOf(db, { userId, session: randomUUID() })).toMatchObject({ unfinished: false });
    expect(await begin(db, { userId, session })).toBe(id);
    expect((await stateOf(db, { userId, session })).left).toBe(9);
  });

  test("if the use of a recovery code fails midway, another session can continue the recovery with the same code", async ({
    db,
  }) => {
    const { userId, hash, session } = await withCodes(db);
    await end(db, { id: await begin(db, { userId, hash, session }), completed: false });
    const later = randomUUID();
    expect(await begin(db, { userId, hash, session: later })).not.toBeNull();
    expect(await stateOf(db, { userId, session })).toMatchObject({ unfinished: false });
    expect(await stateOf(db, { userId, session: later })).toMatchObject({ unfinished: true });
  });

  test("if a request dies while it uses a recovery code, the recovery can be resumed after 30 s, and not before", async ({
    db,
  }) => {
    const { userId, hash, session } = await withCodes(db);
    await begin(db, { userId, hash, session });
    await backdate(db, { column: "lease_expires_at", seconds: 29.9 });
    expect(await begin(db, { userId, session })).toBeNull();
    await backdate(db, { column: "lease_expires_at", seconds: 0.1 });
    expect(await begin(db, { userId, session })).not.toBeNull();
  });

  test("an unfinished use of a recovery code can be resumed for one day", async ({ db }) => {
    const { userId, hash, session } = await withCodes(db);
    await end(db, { id: await begin(db, { userId, hash, session }), completed: false });
    await backdate(db, { column: "used_at", seconds: 24 * 3_600 - 1 });
    await end(db, { id: await begin(db, { userId, session }), completed: false });
    await backdate(db, { column: "used_at", seconds: 1 });
    for (const use of [
      { userId, session },
      { userId, session, hash },
    ])
      expect(await begin(db, use)).toBeNull();
    expect(await stateOf(db, { userId, session })).toMatchObject({ unfinished: false });
  });

  test(`of ${callers} concurrent callers, only one can use a recovery code, and only one can resume its use`, async () => {
    const { db, close } = openPool(callers);
    const userId = randomUUID();
    const hash = newHash();
    const session = randomUUID();
    const winners = async (use: Use) => {
      const ids = await Promise.all(Array.from({ length: callers }, () => begin(db, use)));
      return ids.filter((id) => id !== null);
    };
    try {
      await db.query(
        "insert into auth.users (id, aud, role, email) values ($1::uuid, 'authenticated', 'authenticated', $1 || '@race.test')",
        [userId],
      );
      await replace(db, { userId, hashes: [hash, ...newHashes().slice(1)] });
      const [id = "", ...others] = await winners({ userId, session, hash });
      expect(others).toEqual([]);
      await end(db, { id, completed: false });
      expect(await winners({ userId, session })).toEqual([id]);
      await end(db, { id, completed: true });
      expect(await winners({ userId, session, hash })).toEqual([]);
    } finally {
      await db.query("delete from auth.users where id = $1", [userId]);
      await close();
    }
  });
});

describe("required MFA after the use of a recovery code", () => {
  const policyOf = async (db: Database, userId: string) =>
    (
      await one<{ metadata: { platform_required_mfa?: Record<string, unknown> } }>(db, {
        sql: "select raw_app_meta_data as metadata from auth.users where id = $1",
        values: [userId],
      })
    ).metadata;

  test("after a recovery code is used, MFA stays required and accepts no earlier second factor", async ({ db }) => {
    const claims = await createActor(db, { mfa: "required, at AAL2" });
    const satisfied = async () =>
      (
        await db.asUser(claims, () =>
          one<{ state: { policy: { satisfied: boolean } } }>(db, { sql: "select public.session_state() as state" }),
        )
      ).state.policy.satisfied;
    const before = (await policyOf(db, claims.sub)).platform_required_mfa;
    const hash = newHash();
    await replace(db, { userId: claims.sub, hashes: [hash] });
    expect(await satisfied()).toBe(true);
    const use = { userId: claims.sub, session: claims.session_id, hash };
    await db.asRole("service_role", () => begin(db, use));
    expect(await satisfied()).toBe(false);
    expect((await policyOf(db, claims.sub)).platform_required_mfa).toEqual({
      ...before,
      boundary: expect.closeTo(await currentSecond(db), -1),
      recovery: "in_progress",
      generation: 2,
    });
    await expect(
      db.query("update auth.users set raw_app_meta_data = '{}' where id = $1", [claims.sub]),
    ).resolves.toEqual([]);
    expect(await policyOf(db, claims.sub)).toHaveProperty("platform_required_mfa.required", true);
  });

  test("an account that used a recovery code stays blocked until its authenticators are removed", async ({ db }) => {
    const { sub } = await createActor(db, { mfa: "required, at AAL2" });
    const hash = newHash();
    await replace(db, { userId: sub, hashes: [hash] });
    const id = await begin(db, { userId: sub, session: randomUUID(), hash });
    await end(db, { id, completed: true });
    expect(await policyOf(db, sub)).toHaveProperty("platform_required_mfa.recovery", "in_progress");
    await db.query("delete from auth.mfa_factors where user_id = $1", [sub]);
    await end(db, { id, completed: true });
    expect(await policyOf(db, sub)).toMatchObject({
      platform_required_mfa: { recovery: "none", required: true, generation: 3, primaryBoundary: null },
    });
  });

  test("an account without an MFA policy has optional MFA after it uses a recovery code", async ({ db }) => {
    const { sub } = await createActor(db, {});
    const hash = newHash();
    await replace(db, { userId: sub, hashes: [hash] });
    await end(db, { id: await begin(db, { userId: sub, session: randomUUID(), hash }), completed: true });
    expect(await policyOf(db, sub)).toMatchObject({
      platform_required_mfa: { version: 1, required: false, recovery: "none", generation: 2 },
    });
  });

  test("completing a recovery with a code leaves the account blocked if another recovery began after the code was used", async ({
    db,
  }) => {
    const { sub } = await createActor(db, { mfa: "required, no factor" });
    const [hash, session] = [newHash(), randomUUID()];
    await replace(db, { userId: sub, hashes: [hash] });
    const id = await begin(db, { userId: sub, session, hash });
    await db.query(
      `select private.write_required_mfa_policy(u, '{"recovery": "in_progress", "signInAgain": true}')
       from auth.users u where id = $1`,
      [sub],
    );
    await end(db, { id, completed: true });
    expect(await policyOf(db, sub)).toHaveProperty("platform_required_mfa.recovery", "in_progress");
  });

  test("an unreadable MFA policy blocks the use of recovery codes", async ({ db }) => {
    const { sub } = await createActor(db, { mfa: "malformed policy" });
    const [hash, before] = [newHash(), await policyOf(db, sub)];
    await replace(db, { userId: sub, hashes: [hash] });
    expect(await begin(db, { userId: sub, session: randomUUID(), hash })).toBeNull();
    expect(await policyOf(db, sub)).toEqual(before);
  });
});

test("only the service role can call the functions for recovery codes", async ({ db }) => {
  const claims = await createActor(db, {});
  const [userId, session] = [claims.sub, claims.session_id];
  const calls: (() => Promise<unknown>)[] = [
    () => replace(db, { userId, hashes: newHashes() }),
    () => stateOf(db, { userId, session }),
    () => begin(db, { userId, session }),
    () => end(db, { id: randomUUID(), completed: true }),
  ];
  for (const call of calls) {
    expect((await failureOf(() => db.asUser(claims, call))).code).toBe("42501");
    for (const role of ["anon", "gateway"] as const)
      expect((await failureOf(() => db.asRole(role, call))).code).toBe("42501");
    await db.asRole("service_role", call);
  }
});

describe("signing in once with a recovery code", () => {
  const key = randomBytes(32);
  const signInProving = async (db: Database, userId: string) => {
    const claims = await signIn(db, { userId });
    proveApproval(claims, key);
    return claims;
  };
  const setPolicy = async (db: Database, { userId, ...changes }: { userId: string; [field: string]: unknown }) => {
    const valid = { version: 1, required: true, boundary: 0, primaryBoundary: null, recovery: "none", generation: 1 };
    await db.query("select set_config('gatehouse.required_mfa_writer', 'on', true)");
    await db.query(
      "update auth.users set raw_app_meta_data = jsonb_build_object('platform_required_mfa', $2::jsonb) where id = $1",
      [userId, JSON.stringify({ ...valid, ...changes })],
    );
  };

  async function enrolled(db: Database) {
    const codes = await withCodes(db);
    const factorId = await enrollFactor(db, { userId: codes.userId });
    const claims = await signInProving(db, codes.userId);
    return { ...codes, factorId, claims };
  }
  const signInOnce = async (db: Database, { claims, hash }: { claims: object; hash: string }) => {
    const input = { claims, codeHash: hash, proofKey: `\\x${key.toString("hex")}` };
    return (
      await one<{ answer: { validUntil: string } | null }>(db, {
        sql: "select private.sign_in_with_recovery_code($1) as answer",
        values: [JSON.stringify(input)],
      })
    ).answer;
  };
  const isSatisfied = async (db: Database, claims: object) =>
    (
      await one<{ satisfied: boolean }>(db, {
        sql: "select private.session_satisfies_mfa($1) as satisfied",
        values: [JSON.stringify(claims)],
      })
    ).satisfied;

  test("a recovery code signs one session in, once, and keeps the authenticators", async ({ db }) => {
    const { userId, claims, hash, session, factorId } = await enrolled(db);
    const other = await signInProving(db, userId);
    expect(await isSatisfied(db, claims)).toBe(false);
    expect(await signInOnce(db, { claims, hash })).toEqual({ validUntil: expect.any(String) });
    expect(await isSatisfied(db, claims)).toBe(true);
    expect(await isSatisfied(db, other)).toBe(false);
    expect(await signInOnce(db, { claims: other, hash })).toBeNull();
    expect(await begin(db, { userId, session, hash })).toBeNull();
    expect(await stateOf(db, { userId, session: claims.session_id })).toMatchObject({ left: 9, unfinished: false });
    expect(await db.query("select id from auth.mfa_factors where user_id = $1", [userId])).toEqual([{ id: factorId }]);
    const events = "select kind, session_id from public.security_events where user_id = $1 and kind like 'recovery%'";
    expect(await db.query(events, [userId])).toEqual([
      { kind: "recovery_code_sign_in", session_id: claims.session_id },
    ]);
    expect(
      await db.query(
        "select from private.outgoing_mails m join public.security_events e on e.id = m.event_id where e.user_id = $1 and e.kind = 'recovery_code_sign_in'",
        [userId],
      ),
    ).toHaveLength(1);
  });

  type Enrolled = Awaited<ReturnType<typeof enrolled>>;
  test.for<[string, (db: Database, account: Enrolled) => Promise<unknown>]>([
    [
      "its authenticator is removed",
      (db, { factorId }) => db.query("delete from auth.mfa_factors where id = $1", [factorId]),
    ],
    ["the policy's boundary is newer", (db, { userId }) => setPolicy(db, { userId, boundary: 4_102_444_800 })],
    [
      "its 12 hours have passed",
      (db, { userId }) =>
        db.query("update private.login_challenges set valid_until = now() where user_id = $1", [userId]),
    ],
    ["its session ends", (db, { claims }) => db.query("delete from auth.sessions where id = $1", [claims.session_id])],
  ])("a sign-in with a recovery code ends when %s", async ([, change], { db }) => {
    const account = await enrolled(db);
    expect(await signInOnce(db, account)).not.toBeNull();
    // The account still has another authenticator.
    await enrollFactor(db, { userId: account.userId });
    await change(db, account);
    expect(await isSatisfied(db, account.claims)).toBe(false);
  });

  test.for<[string, (db: Database, account: Enrolled) => Promise<{ claims?: object; hash?: string } | undefined>]>([
    ["another account's code", async (db) => ({ hash: (await withCodes(db)).hash })],
    [
      "a proof made with another key",
      async (_, { claims }) => ({
        claims: {
          ...claims,
          approval_proof: claims.approval_proof?.replace(/.$/, (digit) => (digit === "0" ? "1" : "0")),
        },
      }),
    ],
    [
      "an account without an authenticator",
      async (db, { factorId }) => {
        await db.query("delete from auth.mfa_factors where id = $1", [factorId]);
        return undefined;
      },
    ],
    [
      "a malformed policy",
      async (db, { userId }) => {
        await setPolicy(db, { userId, version: 2 });
        return undefined;
      },
    ],
    [
      "a recovery in progress",
      async (db, { userId }) => {
        await setPolicy(db, { userId, recovery: "in_progress" });
        return undefined;
      },
    ],
  ])("signing in once is refused with %s, and the code stays unused", async ([, change], { db }) => {
    const account = await enrolled(db);
    expect(await signInOnce(db, { ...account, ...(await change(db, account)) })).toBeNull();
    expect((await stateOf(db, account)).left).toBe(10);
  });

  test("of concurrent sign-ins with the same recovery code, one succeeds", async () => {
    const { db, close } = openPool(20);
    const userId = randomUUID();
    try {
      await db.query(
        "insert into auth.users (id, aud, role, email) values ($1::uuid, 'authenticated', 'authenticated', $1 || '@race.test')",
        [userId],
      );
      const [hash = ""] = newHashes();
      await replace(db, { userId, hashes: [hash] });
      await enrollFactor(db, { userId });
      const claims = await signInProving(db, userId);
      const answers = await Promise.all(Array.from({ length: callers }, () => signInOnce(db, { claims, hash })));
      expect(answers.filter(Boolean)).toHaveLength(1);
    } finally {
      await db.query("delete from auth.users where id = $1", [userId]);
      await close();
    }
  });
});
