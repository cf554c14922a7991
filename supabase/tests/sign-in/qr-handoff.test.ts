import { randomUUID } from "node:crypto";
import { Pool } from "pg";
import { describe, expect } from "vitest";
import { readStack } from "../../../scripts/test/stack.ts";
import { createActor, failureOf } from "../actors.ts";
import { type Claims, createUser, currentSecond, type Database, enrollFactor, one, signIn, test } from "../database.ts";
import { beginChallenge, bytea, call, decideQr, expire, poll, runnerOf, statusOf } from "./login-challenge-fixtures.ts";

const claim = (db: Database, options: { begun: Parameters<typeof poll>[2]["begun"]; claims: Claims }) =>
  poll<string>(db, "claim_qr_challenge", options);

/** Creates a browser and a phone of one account, and the browser's challenge. */
async function setUp(db: Database) {
  const user = await createUser(db);
  const factorId = await enrollFactor(db, { userId: user.id });
  const browser = await signIn(db, { userId: user.id, factorId });
  const phone = await signIn(db, { userId: user.id, factorId });
  const begun = await beginChallenge(db, { kind: "qr", claims: browser });
  return { user, browser, phone, begun };
}

/** Creates a session as the identity backend does for a sign-in by a link. */
async function mint(db: Database, userId: string): Promise<string> {
  const { session_id } = await signIn(db, { userId });
  await db.query(
    `insert into auth.mfa_amr_claims (id, session_id, created_at, updated_at, authentication_method)
     values (gen_random_uuid(), $1, now(), now(), 'otp')`,
    [session_id],
  );
  return session_id;
}

const complete = (db: Database, completion: { id: string; claims: Claims; mintedSessionId: string }) =>
  call<string>(db, "complete_qr_challenge", completion);

describe("a QR challenge for signing in a browser", () => {
  test("a QR challenge lasts two minutes, stores only hashes, and begins in the state created", async ({ db }) => {
    const { browser, begun } = await setUp(db);
    const row = await one(db, {
      sql: `select extract(epoch from expires_at - created_at)::int as seconds, to_jsonb(c)::text as text
            from private.login_challenges c where id = $1`,
      values: [begun.id],
    });
    expect(row.seconds).toBe(120);
    expect(row.text).not.toContain(begun.secret);
    expect(await statusOf(db, { kind: "qr", begun, claims: browser })).toBe("created");
  });

  test("a QR challenge can be approved only once and then consumed only once", async ({ db }) => {
    const { user, browser, phone, begun } = await setUp(db);
    expect(await claim(db, { begun, claims: browser })).toBe("created");
    expect(await decideQr(db, { begun, claims: phone })).toBe("approved");
    expect(await decideQr(db, { begun, claims: phone })).toBe("conflict");
    expect(await decideQr(db, { begun, claims: phone, approve: false })).toBe("conflict");
    expect(await claim(db, { begun, claims: browser })).toBe("claimed");
    expect(await claim(db, { begun, claims: browser })).toBe("approved");
    expect(await statusOf(db, { kind: "qr", begun, claims: browser })).toBe("approved");
    const mintedSessionId = await mint(db, user.id);
    expect(await complete(db, { id: begun.id, claims: browser, mintedSessionId })).toBe("consumed");
    expect(await complete(db, { id: begun.id, claims: browser, mintedSessionId })).toBe("expired");
    expect(await claim(db, { begun, claims: browser })).toBe("consumed");
    expect(await decideQr(db, { begun, claims: phone })).toBe("conflict");
  });

  test("a session from a QR challenge gets the approver's sign-in time", async ({ db }) => {
    const { user, browser, phone, begun } = await setUp(db);
    const signedInAt = (await currentSecond(db)) - 4_000;
    phone.amr = [
      { method: "totp", timestamp: signedInAt + 500 },
      { method: "password", timestamp: signedInAt },
      { method: "otp", timestamp: signedInAt - 900 },
    ];
    await decideQr(db, { begun, claims: phone });
    await claim(db, { begun, claims: browser });
    const mintedSessionId = await mint(db, user.id);
    await complete(db, { id: begun.id, claims: browser, mintedSessionId });
    const times = await db.query(
      "select extract(epoch from updated_at)::int as second from auth.mfa_amr_claims where session_id = $1",
      [mintedSessionId],
    );
    expect(times).toEqual([{ second: signedInAt }]);
  });

  test.for([
    ["another account's phone", "forbidden", (_: Claims, other: Claims) => other],
    ["the requesting browser itself", "forbidden", (browser: Claims) => browser],
  ] as const)("a QR challenge can't be approved or rejected by %s", async ([, outcome, who], { db }) => {
    const { browser, phone, begun } = await setUp(db);
    const claims = who(browser, await createActor(db, {}));
    for (const approve of [true, false]) expect(await decideQr(db, { begun, claims, approve })).toBe(outcome);
    expect(await decideQr(db, { begun, claims: phone })).toBe("approved");
  });

  test("a QR challenge is not found with a wrong secret or id", async ({ db }) => {
    const { browser, phone, begun } = await setUp(db);
    for (const wrong of [
      { ...begun, secret: "x" },
      { ...begun, id: randomUUID() },
      { ...begun, id: "no uuid" },
    ]) {
      expect(await decideQr(db, { begun: wrong, claims: phone })).toBe("not_found");
      expect(await statusOf(db, { kind: "qr", begun: wrong, claims: browser })).toBe("not_found");
      expect(await claim(db, { begun: wrong, claims: browser })).toBe("not_found");
    }
  });

  test("another session can't read or consume a QR challenge", async ({ db }) => {
    const { user, phone, begun } = await setUp(db);
    await decideQr(db, { begun, claims: phone });
    const sibling = await signIn(db, { userId: user.id });
    for (const claims of [sibling, phone]) {
      expect(await statusOf(db, { kind: "qr", begun, claims })).toBe("forbidden");
      expect(await claim(db, { begun, claims })).toBe("not_found");
    }
  });

  test("an expired QR challenge can't be approved, and can't be consumed even if it was approved in time", async ({
    db,
  }) => {
    const { browser, phone, begun } = await setUp(db);
    await expire(db, begun);
    expect(await decideQr(db, { begun, claims: phone })).toBe("expired");
    expect(await decideQr(db, { begun, claims: phone, approve: false })).toBe("expired");
    const next = await beginChallenge(db, { kind: "qr", claims: browser });
    await decideQr(db, { begun: next, claims: phone });
    await expire(db, next);
    expect(await claim(db, { begun: next, claims: browser })).toBe("expired");
    expect(await statusOf(db, { kind: "qr", begun: next, claims: browser })).toBe("expired");
  });

  test("a rejected QR challenge remains rejected", async ({ db }) => {
    const { browser, phone, begun } = await setUp(db);
    expect(await decideQr(db, { begun, claims: phone, approve: false })).toBe("rejected");
    expect(await claim(db, { begun, claims: browser })).toBe("rejected");
    expect(await decideQr(db, { begun, claims: phone })).toBe("conflict");
  });

  test.for(["approver signed out", "creator signed out", "boundary moved", "banned"] as const)(
    "an approved QR challenge can't be consumed after this change: %s",
    async (event, { db }) => {
      const { user, browser, phone, begun } = await setUp(db);
      await decideQr(db, { begun, claims: phone });
      const over = event === "approver signed out" ? phone : browser;
      if (event.endsWith("signed out")) await db.query("delete from auth.sessions where id = $1", [over.session_id]);
      if (event === "banned")
        await db.query("update auth.users set banned_until = 'infinity' where id = $1", [user.id]);
      if (event === "boundary moved") await requireNow(db, user.id);
      const outcome = event === "approver signed out" ? "rejected" : "mfa_required";
      expect(await claim(db, { begun, claims: browser })).toBe(outcome);
    },
  );

  test.for(["approver signed out", "boundary moved", "another account's session", "the lease has expired"] as const)(
    "a claimed QR challenge can't be completed after this change: %s",
    async (event, { db }) => {
      const { user, browser, phone, begun } = await setUp(db);
      await decideQr(db, { begun, claims: phone });
      await claim(db, { begun, claims: browser });
      let mintedSessionId = await mint(db, user.id);
      if (event === "approver signed out")
        await db.query("delete from auth.sessions where id = $1", [phone.session_id]);
      if (event === "boundary moved") await requireNow(db, user.id);
      if (event === "another account's session") mintedSessionId = await mint(db, (await createUser(db)).id);
      if (event === "the lease has expired") {
        await db.query("update private.login_challenges set lease_expires_at = now() where id = $1", [begun.id]);
        expect(await statusOf(db, { kind: "qr", begun, claims: browser })).toBe("expired");
      }
      const outcome = event === "the lease has expired" ? "expired" : "rejected";
      expect(await complete(db, { id: begun.id, claims: browser, mintedSessionId })).toBe(outcome);
      expect(await claim(db, { begun, claims: browser })).toBe(outcome);
    },
  );

  test("a claimed QR challenge can be released and then claimed again", async ({ db }) => {
    const { browser, phone, begun } = await setUp(db);
    await call(db, "release_qr_challenge", begun.id);
    expect(await statusOf(db, { kind: "qr", begun, claims: browser })).toBe("created");
    await decideQr(db, { begun, claims: phone });
    await claim(db, { begun, claims: browser });
    await call(db, "release_qr_challenge", begun.id);
    expect(await claim(db, { begun, claims: browser })).toBe("claimed");
  });

  test("a QR challenge expires when its browser begins another one", async ({ db }) => {
    const { browser, phone, begun } = await setUp(db);
    await db.query(
      `update private.login_challenges
       set created_at = created_at - interval '1 minute', expires_at = expires_at - interval '1 minute' where id = $1`,
      [begun.id],
    );
    await beginChallenge(db, { kind: "qr", claims: browser });
    expect(await decideQr(db, { begun, claims: phone })).toBe("expired");
  });

  test("a browser can begin at most 20 QR challenges in 15 minutes", async ({ db }) => {
    const { browser } = await setUp(db);
    const begin = async () => (await beginChallenge(db, { kind: "qr", claims: browser })).answer;
    for (let nth = 2; nth <= 20; nth += 1) expect(await begin()).toMatchObject({ outcome: "begun" });
    expect(await begin()).toEqual({ outcome: "limited", retryAfterSeconds: 900 });
    await db.query(
      `update private.login_challenges set created_at = now() - interval '15 minutes', expires_at = now() - interval '14 minutes'
       where id = (select id from private.login_challenges where user_id = $1 limit 1)`,
      [browser.sub],
    );
    expect(await begin()).toMatchObject({ outcome: "begun" });
  });

  test("only our server can use QR challenges", async ({ db }) => {
    const { browser, begun } = await setUp(db);
    for (const [name, argument] of [
      ["begin_login_challenge", "{}"],
      ["read_login_challenge", "{}"],
      ["read_qr_request", "{}"],
      ["decide_qr_challenge", "{}"],
      ["claim_qr_challenge", "{}"],
      ["complete_qr_challenge", "{}"],
      ["release_qr_challenge", begun.id],
    ] as const) {
      const run = () => db.query(`select private.${name}($1)`, [argument]);
      expect(await failureOf(() => db.asUser(browser, run)), name).toMatchObject({ code: "42501" });
      expect(await failureOf(() => db.asRole("anon", run)), name).toMatchObject({ code: "42501" });
      expect(await failureOf(() => db.asRole("gateway", run)), name).toMatchObject({ code: "42501" });
    }
  });
});

/** Requires MFA and sets the boundary to now, so that the second factors of existing sessions no longer count. */
async function requireNow(db: Database, userId: string): Promise<void> {
  const boundary = await currentSecond(db);
  await db.query("select set_config('gatehouse.required_mfa_writer', 'on', true)");
  await db.query("update auth.users set raw_app_meta_data = $2 where id = $1", [
    userId,
    {
      platform_required_mfa: {
        version: 1,
        required: true,
        boundary,
        primaryBoundary: null,
        recovery: "none",
        generation: 1,
      },
    },
  ]);
}

test("a login challenge is kept for an hour after it expires, and is then deleted", async ({ db }) => {
  const { browser, begun } = await setUp(db);
  const age = (interval: string) =>
    db.query(
      `update private.login_challenges set created_at = now() - $2::interval - interval '1 minute',
         expires_at = now() - $2::interval where id = $1`,
      [begun.id, interval],
    );
  const kept = async () => (await statusOf(db, { kind: "qr", begun, claims: browser })) !== "not_found";
  await age("59 minutes");
  await db.asRole("service_role", () => db.query("select private.sweep_login_challenges()"));
  expect(await kept()).toBe(true);
  await age("61 minutes");
  await db.asRole("service_role", () => db.query("select private.sweep_login_challenges()"));
  expect(await kept()).toBe(false);
});

test("of 60 concurrent approvals of a QR challenge, only one counts, and of 60 concurrent polls, only one claims the challenge", async () => {
  const pool = new Pool({ connectionString: readStack().supabase.dbUrl, max: 20 });
  const outside = runnerOf(pool);
  const client = outside as Database;
  const user = await createUser(client);
  try {
    const [browser, phone] = [await signIn(client, { userId: user.id }), await signIn(client, { userId: user.id })];
    const begun = await beginChallenge(outside, { kind: "qr", claims: browser });
    const sixty = Array.from({ length: 60 });
    const approvals = await Promise.all(sixty.map(() => decideQr(outside, { begun, claims: phone })));
    expect(approvals.filter((outcome) => outcome === "approved")).toHaveLength(1);
    expect(approvals.filter((outcome) => outcome === "conflict")).toHaveLength(59);
    const polls = await Promise.all(sixty.map(() => claim(client, { begun, claims: browser })));
    expect(polls.filter((outcome) => outcome === "claimed")).toHaveLength(1);
    expect(polls.filter((outcome) => outcome === "approved")).toHaveLength(59);
    expect(bytea(begun.secret)).toMatch(/^\\x[0-9a-f]{64}$/);
  } finally {
    await pool.query("delete from auth.users where id = $1", [user.id]);
    await pool.end();
  }
});
