import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { describe, expect } from "vitest";
import {
  bindApproval,
  type Claims,
  createUser,
  currentSecond,
  type Database,
  enrollFactor,
  one,
  signIn,
  test,
} from "../database.ts";
import { requiredMfaState, satisfiesRequiredMfa } from "./required-mfa-oracle.ts";
import vectors from "./required-mfa-vectors.json" with { type: "json" };

type Vector = {
  name: string;
  policy?: unknown;
  claims: { aal?: string; amr?: unknown };
  hasVerifiedFactor: boolean;
  sessionFactorVerified: boolean;
  approvalSecond: number | null;
  state: string;
  satisfied: boolean;
};

const { currentSecond: vectorSecond } = vectors;
const cases = vectors.vectors as Vector[];

function appMetadataOf(vector: Vector): object {
  return "policy" in vector ? { platform_required_mfa: vector.policy } : {};
}

/** Returns whether row-level security lets a token read its own profile. */
async function seesOwnProfile(db: Database, claims: Claims): Promise<boolean> {
  const rows = await db.asUser(claims, () => db.query("select from public.profiles where id = $1", [claims.sub]));
  return rows.length === 1;
}

describe("the MFA rule in SQL, called as a function", () => {
  test.for(cases)("the MFA rule's SQL functions return the expected result: $name", async (vector, { db }) => {
    const row = await one(db, {
      sql: `select
              private.required_mfa_state($1) as state,
              private.satisfies_required_mfa($1, $2, $3, $4, $5, $6) as satisfied`,
      values: [
        JSON.stringify(appMetadataOf(vector)),
        JSON.stringify(vector.claims),
        vector.hasVerifiedFactor,
        vector.sessionFactorVerified,
        vector.approvalSecond,
        vectorSecond,
      ],
    });
    expect(row).toEqual({ state: vector.state, satisfied: vector.satisfied });
  });
});

const second = fc.oneof(
  fc.integer({ min: vectorSecond - 2, max: vectorSecond + 2 }),
  fc.constantFrom(0, -1, 1.5, "1800000000", null, Number.MAX_SAFE_INTEGER, 1e300, true),
);
const amrEntry = fc.oneof(
  fc.record({
    method: fc.constantFrom("totp", "mfa/phone", "password", "otp", "passkey", "oauth", "other", ""),
    timestamp: second,
  }),
  fc.constantFrom(null, "totp", 7, {}, ["totp"], { method: "totp" }),
);
const policy = fc.record(
  {
    version: fc.constantFrom(1, 1, 1, 2, "1", null),
    required: fc.constantFrom(true, true, false, "true", null),
    boundary: second,
    primaryBoundary: second,
    recovery: fc.constantFrom("none", "none", "none", "in_progress", "done", null),
    generation: fc.constantFrom(0, 1, 7, -1, "1", null),
  },
  { requiredKeys: ["version", "required", "boundary"] },
);
const anyFacts = fc.record({
  appMetadata: fc.oneof(
    { weight: 8, arbitrary: policy.map((value) => ({ platform_required_mfa: value })) },
    { weight: 1, arbitrary: fc.constantFrom({}, { platform_required_mfa: null }, { platform_required_mfa: [] }) },
  ),
  claims: fc.record({
    aal: fc.constantFrom("aal1", "aal2", "aal2", "aal3", 2, null),
    amr: fc.oneof(fc.array(amrEntry, { maxLength: 4 }), fc.constantFrom("totp", null, {})),
  }),
  hasVerifiedFactor: fc.boolean(),
  sessionFactorVerified: fc.boolean(),
  approvalSecond: fc.option(fc.integer({ min: vectorSecond - 2, max: vectorSecond + 2 })),
});

test("the MFA rule has the same result in SQL and TypeScript for 2,000 random inputs", async ({ db }) => {
  const sample = fc.sample(anyFacts, 2_000);
  const rows = await db.query<{ state: string; satisfied: boolean }>(
    `select private.required_mfa_state(f -> 'appMetadata') as state,
       private.satisfies_required_mfa(
         f -> 'appMetadata', f -> 'claims', (f -> 'hasVerifiedFactor')::boolean,
         (f -> 'sessionFactorVerified')::boolean, (f ->> 'approvalSecond')::bigint, $2
       ) as satisfied
     from jsonb_array_elements($1) with ordinality as e (f, position) order by position`,
    [JSON.stringify(sample), vectorSecond],
  );
  const expected = sample.map((facts) => ({
    state: requiredMfaState(facts.appMetadata),
    satisfied: satisfiesRequiredMfa({ ...facts, currentSecond: vectorSecond }),
  }));
  expect(rows).toEqual(expected);
  // With any seed, enough of the random facts satisfy the rule.
  expect(expected.filter(({ satisfied }) => satisfied).length).toBeGreaterThan(20);
});

describe("the MFA rule in a row-level security policy", () => {
  test.for(cases)("a row-level security policy applies the MFA rule: $name", async (vector, { db }) => {
    const shift = (await currentSecond(db)) - vectorSecond;
    const user = await createUser(db, { appMetadata: appMetadataOf(shifted(vector, shift)) });
    const factorId = vector.hasVerifiedFactor ? await enrollFactor(db, { userId: user.id }) : undefined;
    const lifted = vector.sessionFactorVerified && factorId === undefined;
    if (lifted) throw new Error("a session cannot be lifted by a factor that is not there");
    const session = await signIn(db, {
      userId: user.id,
      ...(vector.sessionFactorVerified ? { factorId } : { factorId: randomUUID() }),
    });
    if (vector.approvalSecond !== null && factorId !== undefined)
      await bindApproval(db, { claims: session, factorId, secondFactorAt: vector.approvalSecond + shift });

    const { sub, session_id, role, approval_proof } = session;
    const claims = { ...shifted(vector, shift).claims, sub, session_id, role, approval_proof } as Claims;
    expect(await seesOwnProfile(db, claims)).toBe(vector.satisfied);
  });
});

/** Returns the vector shifted to the current time, since the database's clock can't be set. */
function shifted(vector: Vector, bySeconds: number): Vector {
  const near = (value: unknown) => typeof value === "number" && Math.abs(value - vectorSecond) < 1_000_000;
  return JSON.parse(JSON.stringify(vector), (_, value) => (near(value) ? value + bySeconds : value));
}

describe("what a session can read", () => {
  test("a caller without claims has no session and can't read anything", async ({ db }) => {
    await createUser(db);
    expect(await db.asRole("authenticated", () => db.query("select from public.profiles"))).toEqual([]);
    const row = await db.asRole("authenticated", () => one(db, { sql: "select public.session_state() as state" }));
    expect(row).toEqual({ state: { alive: false } });
  });

  test("a session can't read anything once it has ended", async ({ db }) => {
    const user = await createUser(db);
    const claims = await signIn(db, { userId: user.id });
    expect(await seesOwnProfile(db, claims)).toBe(true);
    await db.query("delete from auth.sessions where id = $1", [claims.session_id]);
    expect(await seesOwnProfile(db, claims)).toBe(false);
  });

  test("a session can't read anything from the moment it expires", async ({ db }) => {
    const user = await createUser(db);
    const claims = await signIn(db, { userId: user.id });
    const endAt = (moment: string) =>
      db.query(`update auth.sessions set not_after = ${moment} where id = $1`, [claims.session_id]);
    await endAt("now()");
    expect(await seesOwnProfile(db, claims)).toBe(false);
    await endAt("now() + interval '1 microsecond'");
    expect(await seesOwnProfile(db, claims)).toBe(true);
  });

  test("a session can't be used with another account's id", async ({ db }) => {
    const [user, other] = [await createUser(db), await createUser(db)];
    const claims = await signIn(db, { userId: other.id });
    expect(await seesOwnProfile(db, { ...claims, sub: user.id })).toBe(false);
  });

  test.for(["", "not-a-uuid", randomUUID()])(
    "a session that does not exist (%j) has no access",
    async (session_id, { db }) => {
      const user = await createUser(db);
      const claims = await signIn(db, { userId: user.id });
      expect(await seesOwnProfile(db, { ...claims, session_id })).toBe(false);
    },
  );

  test("a session of a banned account can't read anything until the ban expires", async ({ db }) => {
    const user = await createUser(db);
    const claims = await signIn(db, { userId: user.id });
    await db.query("update auth.users set banned_until = now() + interval '1 second' where id = $1", [user.id]);
    expect(await seesOwnProfile(db, claims)).toBe(false);
    await db.query("update auth.users set banned_until = now() where id = $1", [user.id]);
    expect(await seesOwnProfile(db, claims)).toBe(true);
  });

  test("a session of a deleted account can't read anything", async ({ db }) => {
    const user = await createUser(db);
    const claims = await signIn(db, { userId: user.id });
    await db.query("update auth.users set deleted_at = now() where id = $1", [user.id]);
    expect(await seesOwnProfile(db, claims)).toBe(false);
  });

  test("a session loses AAL2 when the factor that it used is removed, even if another factor remains", async ({
    db,
  }) => {
    const user = await createUser(db);
    const factorId = await enrollFactor(db, { userId: user.id });
    await enrollFactor(db, { userId: user.id });
    const claims = await signIn(db, { userId: user.id, factorId });
    expect(await seesOwnProfile(db, claims)).toBe(true);
    await db.query("delete from auth.mfa_factors where id = $1", [factorId]);
    expect(await seesOwnProfile(db, claims)).toBe(false);
  });

  test("another account's factor does not raise a session to AAL2", async ({ db }) => {
    const [user, other] = [await createUser(db), await createUser(db)];
    await enrollFactor(db, { userId: user.id });
    const factorId = await enrollFactor(db, { userId: other.id });
    expect(await seesOwnProfile(db, await signIn(db, { userId: user.id, factorId }))).toBe(false);
  });

  test("a session needs no second factor while the account's only authenticator is unverified", async ({ db }) => {
    const user = await createUser(db);
    await enrollFactor(db, { userId: user.id, status: "unverified" });
    expect(await seesOwnProfile(db, await signIn(db, { userId: user.id }))).toBe(true);
  });
});

describe("a mobile approval that is bound to a session", () => {
  const setting = async (db: Database) => {
    const user = await createUser(db);
    const factorId = await enrollFactor(db, { userId: user.id });
    const claims = await signIn(db, { userId: user.id });
    return { claims, factorId, second: await currentSecond(db) };
  };

  test("a mobile approval is valid only for the session it is bound to", async ({ db }) => {
    const { claims, factorId, second } = await setting(db);
    const other = await signIn(db, { userId: claims.sub });
    await bindApproval(db, { claims, factorId, secondFactorAt: second });
    expect(await seesOwnProfile(db, claims)).toBe(true);
    expect(await seesOwnProfile(db, other)).toBe(false);
  });

  test("a mobile approval that is bound to a session is invalid from the moment it expires", async ({ db }) => {
    const { claims, factorId, second } = await setting(db);
    const id = await bindApproval(db, { claims, factorId, secondFactorAt: second });
    const endAt = (moment: string) =>
      db.query(`update private.login_challenges set valid_until = ${moment} where id = $1`, [id]);
    await endAt("now()");
    expect(await seesOwnProfile(db, claims)).toBe(false);
    await endAt("now() + interval '1 microsecond'");
    expect(await seesOwnProfile(db, claims)).toBe(true);
  });

  test("a mobile approval with another account's factor is not valid", async ({ db }) => {
    const { claims, second } = await setting(db);
    const other = await createUser(db);
    const factorId = await enrollFactor(db, { userId: other.id });
    await bindApproval(db, { claims, factorId, secondFactorAt: second });
    expect(await seesOwnProfile(db, claims)).toBe(false);
  });

  test("a mobile approval with an unverified factor is not valid", async ({ db }) => {
    const { claims, second } = await setting(db);
    const factorId = await enrollFactor(db, { userId: claims.sub, status: "unverified" });
    await bindApproval(db, { claims, factorId, secondFactorAt: second });
    expect(await seesOwnProfile(db, claims)).toBe(false);
  });

  test("a mobile approval ends when the approver's factor is removed", async ({ db }) => {
    const { claims, factorId, second } = await setting(db);
    await enrollFactor(db, { userId: claims.sub });
    await bindApproval(db, { claims, factorId, secondFactorAt: second });
    await db.query("delete from auth.mfa_factors where id = $1", [factorId]);
    expect(await seesOwnProfile(db, claims)).toBe(false);
  });

  test("a mobile approval ends when the session it is bound to ends", async ({ db }) => {
    const { claims, factorId, second } = await setting(db);
    await bindApproval(db, { claims, factorId, secondFactorAt: second });
    await db.query("delete from auth.sessions where id = $1", [claims.session_id]);
    expect(await seesOwnProfile(db, claims)).toBe(false);
  });

  test("a mobile approval is not valid before it is bound to a session", async ({ db }) => {
    const { claims, factorId, second } = await setting(db);
    const id = await bindApproval(db, { claims, factorId, secondFactorAt: second });
    await db.query("update private.login_challenges set status = 'approved' where id = $1", [id]);
    expect(await seesOwnProfile(db, claims)).toBe(false);
  });
});
