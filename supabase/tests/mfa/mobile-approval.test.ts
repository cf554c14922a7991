import { randomBytes, randomUUID } from "node:crypto";
import { Pool } from "pg";
import { describe, expect } from "vitest";
import { readStack } from "../../../scripts/test/stack.ts";
import { createActor, failureOf } from "../actors.ts";
import {
  type Claims,
  createUser,
  currentSecond,
  type Database,
  enrollFactor,
  one,
  proveApproval,
  signIn,
  test,
} from "../database.ts";
import {
  beginChallenge,
  call,
  decideMobile,
  expire,
  type NewChallenge,
  poll,
  runnerOf,
  statusOf,
} from "../sign-in/login-challenge-fixtures.ts";

const kind = "mfa_mobile";
/** Binds an approval to a session, and adds its proof to the claims. */
function bind(db: Parameters<typeof poll>[0], { begun, claims }: { begun: NewChallenge; claims: Claims }) {
  const proofKey = randomBytes(32);
  proveApproval(claims, proofKey);
  const options = { begun, claims, proofKey };
  return poll<{ status: string; validUntil: string | null } | null>(db, "bind_mobile_approval", options);
}

/** Signs one account in to a browser at AAL1 and a phone at AAL2, and begins the browser's request for approval. */
async function setUp(db: Database) {
  const user = await createUser(db);
  const factorId = await enrollFactor(db, { userId: user.id });
  const browser = await signIn(db, { userId: user.id });
  const phone = await signIn(db, { userId: user.id, factorId });
  const begun = await beginChallenge(db, { kind, claims: browser });
  return { user, factorId, browser, phone, begun };
}

const isSatisfied = (db: Database, claims: Claims) =>
  db.asUser(claims, async () => {
    const { state } = await one(db, { sql: "select public.session_state() as state" });
    return (state.policy as { satisfied: boolean }).satisfied;
  });

describe("a request for approval on the phone", () => {
  test("a request for approval lasts five minutes, and stores neither its secret nor its pair code in plain text", async ({
    db,
  }) => {
    const { browser, begun } = await setUp(db);
    const row = await one(db, {
      sql: `select extract(epoch from expires_at - created_at)::int as seconds, to_jsonb(c)::text as text
            from private.login_challenges c where id = $1`,
      values: [begun.id],
    });
    expect(row.seconds).toBe(300);
    expect(row.text).not.toContain(begun.secret);
    expect(row.text).not.toContain(begun.pairCode);
    expect(await statusOf(db, { kind, begun, claims: browser })).toBe("created");
  });

  test("an approval on the phone is bound to the requesting session for 12 hours, and satisfies the account's MFA policy", async ({
    db,
  }) => {
    const { browser, phone, factorId, begun } = await setUp(db);
    expect(await isSatisfied(db, browser)).toBe(false);
    expect(await bind(db, { begun, claims: browser })).toBeNull();
    expect(await decideMobile(db, { begun, claims: phone })).toEqual({ outcome: "approved" });
    expect(await isSatisfied(db, browser)).toBe(false);
    expect(await bind(db, { begun, claims: browser })).toMatchObject({ status: "bound" });
    expect(await isSatisfied(db, browser)).toBe(true);
    expect(await bind(db, { begun, claims: browser })).toBeNull();
    const second = await currentSecond(db);
    const row = await one(db, {
      sql: `select approver_factor_id, extract(epoch from second_factor_at)::int as second,
              extract(epoch from valid_until - bound_at)::int as lifetime, approval_metadata ->> 'sessionId' as session
            from private.login_challenges where id = $1`,
      values: [begun.id],
    });
    // signIn dates the second factor one second ago.
    expect(row).toEqual({
      approver_factor_id: factorId,
      second: second - 1,
      lifetime: 12 * 3600,
      session: browser.session_id,
    });
  });

  test("a session's own second factor satisfies the policy, also with an approval", async ({ db }) => {
    const { browser, phone, factorId, begun } = await setUp(db);
    await decideMobile(db, { begun, claims: phone });
    await bind(db, { begun, claims: browser });
    await db.query("update auth.sessions set aal = 'aal2', factor_id = $2 where id = $1", [
      browser.session_id,
      factorId,
    ]);
    const raised = { ...browser, aal: "aal2", amr: [{ method: "totp", timestamp: await currentSecond(db) }] };
    expect(await isSatisfied(db, raised)).toBe(true);
  });

  test.for([
    [
      "another session uses it",
      async (db: Database, { user }: Awaited<ReturnType<typeof setUp>>) => signIn(db, { userId: user.id }),
    ],
    [
      "it has expired",
      async (db: Database, { begun, browser }: Awaited<ReturnType<typeof setUp>>) => {
        await db.query("update private.login_challenges set valid_until = now() where id = $1", [begun.id]);
        return browser;
      },
    ],
    [
      "its session signed out",
      async (db: Database, { browser }: Awaited<ReturnType<typeof setUp>>) => {
        await db.query("delete from auth.sessions where id = $1", [browser.session_id]);
        return browser;
      },
    ],
    [
      "the boundary moved",
      async (db: Database, { user, browser }: Awaited<ReturnType<typeof setUp>>) => {
        await setBoundary(db, { userId: user.id, boundary: await currentSecond(db) });
        return browser;
      },
    ],
    [
      "its factor was removed",
      async (db: Database, { user, factorId, browser }: Awaited<ReturnType<typeof setUp>>) => {
        await enrollFactor(db, { userId: user.id });
        await db.query("delete from auth.mfa_factors where id = $1", [factorId]);
        return browser;
      },
    ],
  ] as const)("an approval on the phone is not valid if %s", async ([, change], { db }) => {
    const set = await setUp(db);
    await decideMobile(db, { begun: set.begun, claims: set.phone });
    await bind(db, { begun: set.begun, claims: set.browser });
    const claims = await change(db, set);
    const rows = await db.asUser(claims, () => db.query("select id from public.profiles where id = $1", [set.user.id]));
    expect(rows).toEqual([]);
  });

  test("an approval is not valid if the phone's second factor is too old for the MFA policy, even if the approval itself is recent", async ({
    db,
  }) => {
    const { user, browser, phone, begun } = await setUp(db);
    const second = await currentSecond(db);
    await setBoundary(db, { userId: user.id, boundary: second - 2 });
    await decideMobile(db, { begun, claims: phone });
    await bind(db, { begun, claims: browser });
    expect(await isSatisfied(db, browser)).toBe(true);
    await setBoundary(db, { userId: user.id, boundary: second - 1 });
    expect(await isSatisfied(db, browser)).toBe(false);
  });

  test("an approval is rejected if the session would still not satisfy the MFA policy", async ({ db }) => {
    const { user, factorId, browser, phone, begun } = await setUp(db);
    await decideMobile(db, { begun, claims: phone });
    await enrollFactor(db, { userId: user.id });
    await db.query("delete from auth.mfa_factors where id = $1", [factorId]);
    expect(await bind(db, { begun, claims: browser })).toEqual({ status: "rejected", validUntil: null });
    expect(await statusOf(db, { kind, begun, claims: browser })).toBe("rejected");
  });

  test("a request for approval tolerates four wrong codes before the right one", async ({ db }) => {
    const { phone, begun } = await setUp(db);
    for (const attemptsLeft of [4, 3, 2, 1]) {
      expect(await decideMobile(db, { begun, claims: phone, pairCode: "000000" })).toEqual({
        outcome: "wrong_code",
        attemptsLeft,
      });
    }
    expect(await decideMobile(db, { begun, claims: phone })).toEqual({ outcome: "approved" });
  });

  test("after the fifth wrong code, a request for approval can be neither approved with the right code nor rejected", async ({
    db,
  }) => {
    const { browser, phone, begun } = await setUp(db);
    for (const _ of [1, 2, 3, 4]) await decideMobile(db, { begun, claims: phone, pairCode: "000000" });
    expect(await decideMobile(db, { begun, claims: phone, pairCode: "000000" })).toEqual({
      outcome: "wrong_code",
      attemptsLeft: 0,
    });
    expect(await decideMobile(db, { begun, claims: phone })).toEqual({ outcome: "conflict" });
    expect(await decideMobile(db, { begun, claims: phone, approve: false })).toEqual({ outcome: "conflict" });
    expect(await bind(db, { begun, claims: browser })).toBeNull();
    expect(await statusOf(db, { kind, begun, claims: browser })).toBe("locked");
  });

  test("an approval request can be rejected without its code, and cannot be decided again", async ({ db }) => {
    const { phone, begun } = await setUp(db);
    expect(await decideMobile(db, { begun, claims: phone, approve: false, pairCode: "" })).toEqual({
      outcome: "rejected",
    });
    expect(await decideMobile(db, { begun, claims: phone })).toEqual({ outcome: "conflict" });
  });

  test.for([
    ["another account's phone", "not_found", async (db: Database) => createActor(db, { mfa: "a factor, at AAL2" })],
    ["a phone at AAL1", "mfa_required", async (db: Database, userId: string) => signIn(db, { userId })],
    [
      "a phone whose factor was removed",
      "mfa_required",
      async (db: Database, userId: string) => {
        const factorId = await enrollFactor(db, { userId });
        const claims = await signIn(db, { userId, factorId });
        await db.query("delete from auth.mfa_factors where id = $1", [factorId]);
        return claims;
      },
    ],
    [
      "a session that has ended",
      "mfa_required",
      async (db: Database, userId: string) => {
        const factorId = await enrollFactor(db, { userId });
        const claims = await signIn(db, { userId, factorId });
        await db.query("delete from auth.sessions where id = $1", [claims.session_id]);
        return claims;
      },
    ],
    [
      "a session that was itself only approved by a phone",
      "mfa_required",
      async (db: Database, userId: string) => {
        const factorId = await enrollFactor(db, { userId });
        const [approved, phone] = [await signIn(db, { userId }), await signIn(db, { userId, factorId })];
        const begun = await beginChallenge(db, { kind, claims: approved });
        await decideMobile(db, { begun, claims: phone });
        await bind(db, { begun, claims: approved });
        return approved;
      },
    ],
  ] as const)("a request can't be approved, rejected or listed by %s", async ([, outcome, who], { db }) => {
    const { user, begun } = await setUp(db);
    const claims = await who(db, user.id);
    for (const approve of [true, false]) {
      expect(await decideMobile(db, { begun, claims, approve })).toEqual({ outcome });
    }
    const listed = await call(db, "pending_mobile_approvals", { ...claims });
    expect(listed).toEqual(
      outcome === "mfa_required" ? { outcome: "mfa_required" } : { outcome: "listed", approvals: [] },
    );
  });

  test("the requesting session itself can't approve its request", async ({ db }) => {
    const { phone } = await setUp(db);
    const begun = await beginChallenge(db, { kind, claims: phone });
    expect(await decideMobile(db, { begun, claims: phone })).toEqual({ outcome: "forbidden" });
  });

  test("the phone lists a request for approval with its device, address and time, but without its code", async ({
    db,
  }) => {
    const { phone, begun } = await setUp(db);
    const listed = await call<{ approvals: object[] }>(db, "pending_mobile_approvals", phone);
    expect(listed).toEqual({
      outcome: "listed",
      approvals: [
        {
          id: begun.id,
          createdAt: expect.any(String),
          expiresAt: expect.any(String),
          metadata: { device: "Test browser", address: "192.0.2.1" },
        },
      ],
    });
    await decideMobile(db, { begun, claims: phone });
    expect(await call(db, "pending_mobile_approvals", phone)).toEqual({ outcome: "listed", approvals: [] });
  });

  test("after an approval request expires, it can be neither approved nor bound to the browser's session", async ({
    db,
  }) => {
    const { browser, phone, begun } = await setUp(db);
    await expire(db, begun);
    expect(await decideMobile(db, { begun, claims: phone })).toEqual({ outcome: "expired" });
    const next = await beginChallenge(db, { kind, claims: browser });
    await decideMobile(db, { begun: next, claims: phone });
    await expire(db, next);
    expect(await bind(db, { begun: next, claims: browser })).toBeNull();
    expect(await statusOf(db, { kind, begun: next, claims: browser })).toBe("expired");
  });

  test("an approval can't be used by another session, and a wrong secret or id finds no request", async ({ db }) => {
    const { user, phone, browser, begun } = await setUp(db);
    await decideMobile(db, { begun, claims: phone });
    const sibling = await signIn(db, { userId: user.id });
    for (const claims of [sibling, phone]) {
      expect(await bind(db, { begun, claims })).toBeNull();
      expect(await statusOf(db, { kind, begun, claims })).toBe("forbidden");
    }
    for (const wrong of [
      { ...begun, secret: "x" },
      { ...begun, id: randomUUID() },
      { ...begun, id: "no uuid" },
    ]) {
      expect(await bind(db, { begun: wrong, claims: browser })).toBeNull();
      expect(await statusOf(db, { kind, begun: wrong, claims: browser })).toBe("not_found");
    }
    expect(await statusOf(db, { kind: "qr", begun, claims: browser })).toBe("not_found");
  });

  test("a request for approval is kept while it is valid, and deleted afterwards", async ({ db }) => {
    const { browser, phone, begun } = await setUp(db);
    await decideMobile(db, { begun, claims: phone });
    await bind(db, { begun, claims: browser });
    await db.query(
      `update private.login_challenges set created_at = now() - interval '3 hours',
         expires_at = now() - interval '175 minutes' where id = $1`,
      [begun.id],
    );
    const sweep = () => db.asRole("service_role", () => db.query("select private.sweep_login_challenges()"));
    await sweep();
    expect(await statusOf(db, { kind, begun, claims: browser })).toBe("bound");
    await db.query("update private.login_challenges set valid_until = now() - interval '1 second' where id = $1", [
      begun.id,
    ]);
    await sweep();
    expect(await statusOf(db, { kind, begun, claims: browser })).toBe("not_found");
  });

  test("only our server can call the functions for approvals on the phone", async ({ db }) => {
    const { browser } = await setUp(db);
    for (const name of [
      "session_second_factor",
      "pending_mobile_approvals",
      "decide_mobile_approval",
      "bind_mobile_approval",
      "sweep_login_challenges",
    ]) {
      const run = () => db.query(`select private.${name}(${name.startsWith("sweep") ? "" : "'{}'"})`);
      expect(await failureOf(() => db.asUser(browser, run)), name).toMatchObject({ code: "42501" });
      expect(await failureOf(() => db.asRole("anon", run)), name).toMatchObject({ code: "42501" });
    }
  });
});

async function setBoundary(db: Database, { userId, boundary }: { userId: string; boundary: number }): Promise<void> {
  await db.query("select set_config('gatehouse.required_mfa_writer', 'on', true)");
  const policy = { version: 1, required: true, boundary, primaryBoundary: null, recovery: "none", generation: 1 };
  await db.query("update auth.users set raw_app_meta_data = $2 where id = $1", [
    userId,
    { platform_required_mfa: policy },
  ]);
}

test("under 60 concurrent calls, one approval succeeds, one poll binds the approval to the session, and five wrong codes lock the request", async () => {
  const pool = new Pool({ connectionString: readStack().supabase.dbUrl, max: 20 });
  const outside = runnerOf(pool);
  const client = outside as Database;
  const user = await createUser(client);
  const sixty = Array.from({ length: 60 });
  try {
    const factorId = await enrollFactor(client, { userId: user.id });
    const browser = await signIn(client, { userId: user.id });
    const phone = await signIn(client, { userId: user.id, factorId });
    const begun = await beginChallenge(outside, { kind, claims: browser });
    const approvals = await Promise.all(sixty.map(() => decideMobile(outside, { begun, claims: phone })));
    expect(approvals.filter(({ outcome }) => outcome === "approved")).toHaveLength(1);
    expect(approvals.filter(({ outcome }) => outcome === "conflict")).toHaveLength(59);
    const polls = await Promise.all(sixty.map(() => bind(outside, { begun, claims: browser })));
    expect(polls.filter((answer) => answer?.status === "bound")).toHaveLength(1);
    expect(polls.filter((answer) => answer === null)).toHaveLength(59);

    const next = await beginChallenge(outside, { kind, claims: browser });
    const guesses = await Promise.all(
      sixty.map((_, guess) => decideMobile(outside, { begun: next, claims: phone, pairCode: String(100_000 + guess) })),
    );
    expect(guesses.filter(({ outcome }) => outcome === "wrong_code")).toHaveLength(5);
    expect(guesses.filter(({ outcome }) => outcome === "conflict")).toHaveLength(55);
    expect(await statusOf(outside, { kind, begun: next, claims: browser })).toBe("locked");
  } finally {
    await pool.query("delete from auth.users where id = $1", [user.id]);
    await pool.end();
  }
});
