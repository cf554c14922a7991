import { describe, expect } from "vitest";
import { newAddress } from "../../../remix-app/testing/visitor.ts";
import { failureOf } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { admitted, age, anAttempt, attemptOnce, begin, ownRows, settle } from "./attempt-fixtures.ts";

type Limit = { action: string; scope: string; attempts: number; seconds: number; when_empty: string };

const limitsOf = (db: Database) =>
  db.query<Limit>(
    "select action, scope, attempts, extract(epoch from per)::int as seconds, when_empty from private.attempt_limits()",
  );

/** Begins the given number of attempts and completes none of them. */
async function exhaust(db: Database, attempt: Parameters<typeof begin>[1], count: number): Promise<void> {
  for (let made = 0; made < count; made += 1) await admitted(db, attempt);
}

const empty = async (db: Database, table: string) =>
  (await db.query(`select from private.${table} where ${ownRows}`)).length === 0;

describe("begin_attempt", () => {
  test.for([
    { action: "password", scope: "pair", attempts: 10, retryAfterSeconds: 90 },
    { action: "code", scope: "pair", attempts: 5, retryAfterSeconds: 180 },
    { action: "sign_in_code", scope: "pair", attempts: 5, retryAfterSeconds: 180 },
    { action: "mail", scope: "pair", attempts: 5, retryAfterSeconds: 180 },
    { action: "sign_up", scope: "pair", attempts: 5, retryAfterSeconds: 180 },
    { action: "credential", scope: "pair", attempts: 20, retryAfterSeconds: 180 },
  ])(
    "allows $attempts attempts of kind $action from one address at one account, and no more",
    async (limit, { db }) => {
      const { action, attempts, retryAfterSeconds } = limit;
      const attempt = anAttempt({ action });
      await exhaust(db, attempt, attempts);
      expect(await begin(db, attempt)).toEqual({ allowed: false, reason: "limited", retryAfterSeconds });
      expect(await begin(db, { ...attempt, address: newAddress() })).toMatchObject({ allowed: true });
      await age(db, `${retryAfterSeconds - 1} seconds`);
      expect(await begin(db, attempt)).toMatchObject({ allowed: false, retryAfterSeconds: 1 });
      await age(db, "1 second");
      expect(await begin(db, attempt)).toMatchObject({ allowed: true });
      expect(await begin(db, attempt)).toMatchObject({ allowed: false });
    },
  );

  test.for([
    { action: "password", attempts: 60, retryAfterSeconds: 10 },
    { action: "code", attempts: 60, retryAfterSeconds: 10 },
    { action: "sign_in_code", attempts: 60, retryAfterSeconds: 10 },
    { action: "mail", attempts: 30, retryAfterSeconds: 120 },
    { action: "sign_up", attempts: 30, retryAfterSeconds: 120 },
    { action: "passkey", attempts: 60, retryAfterSeconds: 10 },
    { action: "oauth", attempts: 120, retryAfterSeconds: 5 },
    { action: "credential", attempts: 60, retryAfterSeconds: 10 },
    { action: "user_code", attempts: 30, retryAfterSeconds: 20 },
  ])("allows $attempts attempts of kind $action from one address, across all accounts", async (limit, { db }) => {
    const address = newAddress();
    const next = () => begin(db, anAttempt({ action: limit.action, address }));
    for (let made = 0; made < limit.attempts; made += 1) expect((await next()).allowed).toBe(true);
    const { retryAfterSeconds } = limit;
    expect(await next()).toEqual({ allowed: false, reason: "limited", retryAfterSeconds });
    expect(await begin(db, anAttempt({ action: limit.action }))).toMatchObject({ allowed: true });
  });

  test.for([
    { action: "password", threshold: 20, cap: 100 },
    { action: "mail", threshold: 10, cap: 30 },
    { action: "sign_up", threshold: 10, cap: 30 },
  ])(
    "asks for a bot challenge after $threshold $action attempts at one account from many addresses, and after $cap refuses attempts without a passed challenge",
    async ({ action, threshold, cap }, { db }) => {
      const { email } = anAttempt();
      const fromElsewhere = (changes = {}) => begin(db, anAttempt({ action, ...(email ? { email } : {}), ...changes }));
      for (let made = 0; made < cap; made += 1)
        expect(await fromElsewhere()).toMatchObject({ allowed: true, needsBotChallenge: made >= threshold });
      expect(await fromElsewhere()).toMatchObject({ allowed: false, reason: "limited" });
      expect(await fromElsewhere({ challenged: true })).toMatchObject({ allowed: true, needsBotChallenge: false });
      expect(await begin(db, anAttempt({ action }))).toMatchObject({ allowed: true, needsBotChallenge: false });
    },
  );

  test("requires a bot challenge after 20 attempts to enter mailed codes for an account, but never refuses the attempts", async ({
    db,
  }) => {
    const { email } = anAttempt();
    const fromElsewhere = () => begin(db, anAttempt({ action: "sign_in_code", ...(email ? { email } : {}) }));
    for (let made = 0; made < 150; made += 1)
      expect(await fromElsewhere()).toMatchObject({ allowed: true, needsBotChallenge: made >= 20 });
  });

  test("admits the owner from their usual address while others attack from elsewhere", async ({ db }) => {
    const owner = anAttempt();
    await attemptOnce(db, owner, "succeeded");
    for (let made = 0; made < 101; made += 1) await begin(db, { ...owner, address: newAddress() });
    expect(await begin(db, { ...owner, address: newAddress() })).toMatchObject({ allowed: false });
    expect(await begin(db, owner)).toMatchObject({ allowed: true, needsBotChallenge: false });
    await db.query(`update private.verified_addresses set verified_until = now() where ${ownRows}`);
    expect(await begin(db, owner)).toMatchObject({ allowed: false });
  });

  test("limits an account to 8 code attempts from all addresses, below the limit of 10 at which the identity backend ends the account's sessions", async ({
    db,
  }) => {
    const limits = await limitsOf(db);
    const own = limits.find(({ action, scope }) => action === "code" && scope === "account");
    const hook = limits.find(({ action, scope }) => action === "direct_code" && scope === "account");
    expect(own).toMatchObject({ attempts: 8, seconds: 900, when_empty: "refuse" });
    expect(hook).toMatchObject({ attempts: 10, seconds: 900, when_empty: "refuse" });
    const userId = crypto.randomUUID();
    const next = () => begin(db, { action: "code", address: newAddress(), userId });
    for (let made = 0; made < 8; made += 1) expect((await next()).allowed).toBe(true);
    expect(await next()).toMatchObject({ allowed: false, reason: "limited" });
  });

  test("counts all spellings of an email address as one account, and all IPv6 addresses of a /64 network as one address", async ({
    db,
  }) => {
    const attempt = anAttempt({ email: "Ada@Example.TEST", address: "2001:db8:7:7::1" });
    await exhaust(db, attempt, 9);
    await admitted(db, { ...attempt, email: "ada@example.test", address: "2001:db8:7:7:ffff::2" });
    expect(await begin(db, attempt)).toMatchObject({ allowed: false });
    expect(await begin(db, { ...attempt, address: "2001:db8:7:8::1" })).toMatchObject({ allowed: true });
  });

  test("counts each IPv4 address separately, including when mapped into IPv6", async ({ db }) => {
    const attempt = anAttempt({ address: "203.0.113.7" });
    await exhaust(db, attempt, 9);
    await admitted(db, { ...attempt, address: "::ffff:203.0.113.7" });
    expect(await begin(db, attempt)).toMatchObject({ allowed: false });
    expect(await begin(db, { ...attempt, address: "203.0.113.8" })).toMatchObject({ allowed: true });
    expect(await begin(db, { ...attempt, address: "::ffff:203.0.113.8" })).toMatchObject({ allowed: true });
  });

  test("an attempt that one rate limit refuses does not count against the other limits", async ({ db }) => {
    const attempt = anAttempt({ action: "code" });
    await exhaust(db, attempt, 5);
    const counts = () =>
      db.query(`select subject, full_at from private.rate_limits where action = 'code' and ${ownRows} order by 1`);
    const before = await counts();
    await begin(db, attempt);
    expect(await counts()).toEqual(before);
  });

  test("stores the email and address of an attempt only as digests", async ({ db }) => {
    const attempt = anAttempt({ email: "somebody@example.test" });
    await admitted(db, attempt);
    const rows =
      await db.query(`select (select array_agg(r::text) from private.rate_limits r where ${ownRows}) as limits,
        (select array_agg(o::text) from private.open_attempts o where ${ownRows}) as attempts`);
    expect(rows).toEqual([{ limits: expect.any(Array), attempts: expect.any(Array) }]);
    expect(JSON.stringify(rows)).not.toContain("somebody");
    const [key] = await db.query<{ secret: Buffer }>("select secret from private.attempt_secrets");
    expect(key?.secret).toHaveLength(32);
  });

  test.for([
    [{ action: "guess", address: "203.0.113.7" }, "22023"],
    [{ action: "direct_password", address: "203.0.113.7", email: "a@example.test" }, "22023"],
    [{ action: "failure", address: "203.0.113.7" }, "22023"],
    [{ address: "203.0.113.7" }, "22023"],
    [{ action: "password", address: "nowhere" }, "22P02"],
    [{ action: "password" }, "22004"],
    [{ action: "code", address: "203.0.113.7", userId: "root" }, "22P02"],
  ] as const)("begin_attempt fails for %j", async ([attempt, code], { db }) => {
    const call = () => db.query("select private.begin_attempt($1)", [JSON.stringify(attempt)]);
    expect(await failureOf(call)).toMatchObject({ code });
  });

  test("60 concurrent callers are never admitted more often than the limit allows", async () => {
    const { db, close } = openPool(20);
    try {
      for (const [action, left] of [
        ["password", 10],
        ["code", 5],
      ] as const) {
        const attempt = anAttempt({ action });
        const answers = await Promise.all(Array.from({ length: 60 }, () => begin(db, attempt)));
        expect(answers.filter(({ allowed }) => allowed)).toHaveLength(left);
        const edge = anAttempt({ action });
        for (let made = 0; made < left - 1; made += 1) await admitted(db, edge);
        const late = await Promise.all(Array.from({ length: 60 }, () => begin(db, edge)));
        expect(late.filter(({ allowed }) => allowed)).toHaveLength(1);
      }
    } finally {
      await close();
    }
  });

  test("only one of 50 concurrent callers may try the same mailed code", async () => {
    const { db, close } = openPool(20);
    try {
      const { email = "" } = anAttempt();
      const tried = await Promise.all(
        Array.from({ length: 50 }, () => begin(db, anAttempt({ action: "sign_in_code", email, code: "1234567890" }))),
      );
      expect(tried.filter((begun) => begun.allowed && !begun.repeated)).toHaveLength(1);
      expect(tried.filter(({ allowed }) => allowed)).toHaveLength(50);
    } finally {
      await close();
    }
  });

  test("a second attempt with the same mailed code for the same account is a repeat, unless the first attempt was void", async ({
    db,
  }) => {
    const attempt = anAttempt({ action: "sign_in_code", email: "Ada@example.test", code: "1234567890" });
    const next = (changes: Partial<typeof attempt> = {}) =>
      begin(db, { ...attempt, address: newAddress(), ...changes });
    await attemptOnce(db, attempt, "void");
    expect(await attemptOnce(db, attempt, "failed")).toBe(true);
    expect(await next()).toMatchObject({ allowed: true, repeated: true });
    expect(await next({ email: "ada@example.test" })).toMatchObject({ allowed: true, repeated: true });
    expect(await next({ email: "bea@example.test" })).toMatchObject({ allowed: true, repeated: false });
    expect(await next({ code: "1234567891" })).toMatchObject({ allowed: true, repeated: false });
    await age(db, "1 hour");
    expect(await next()).toMatchObject({ allowed: true, repeated: false });
  });

  test("of 80 concurrent password attempts from one address, exactly 60 are allowed", async () => {
    const { db, close } = openPool(20);
    try {
      const address = newAddress();
      const answers = await Promise.all(
        Array.from({ length: 80 }, (_, index) =>
          begin(db, anAttempt({ address, email: `${index % 20}@${address.replaceAll(":", "-")}.test` })),
        ),
      );
      expect(answers.filter(({ allowed }) => allowed)).toHaveLength(60);
    } finally {
      await close();
    }
  });
});

describe("completing an attempt", () => {
  test("a successful attempt does not count, and clears the account's failures from that address", async ({ db }) => {
    const attempt = anAttempt();
    await exhaust(db, attempt, 9);
    expect(await attemptOnce(db, attempt, "succeeded")).toBe(true);
    await exhaust(db, attempt, 10);
    expect(await begin(db, attempt)).toMatchObject({ allowed: false });
  });

  test("signing in to one account does not clear an address's failures at other accounts", async ({ db }) => {
    const own = anAttempt();
    for (let made = 0; made < 60; made += 1) {
      expect(await attemptOnce(db, anAttempt({ address: own.address }), "failed")).toBe(true);
      if (made < 59) expect(await attemptOnce(db, own, "succeeded")).toBe(true);
    }
    expect(await begin(db, anAttempt({ address: own.address }))).toMatchObject({ allowed: false });
  });

  test("an attempt recorded as void does not count, and does not clear earlier failures", async ({ db }) => {
    const attempt = anAttempt();
    await exhaust(db, attempt, 9);
    for (let made = 0; made < 20; made += 1) expect(await attemptOnce(db, attempt, "void")).toBe(true);
    await admitted(db, attempt);
    expect(await begin(db, attempt)).toMatchObject({ allowed: false });
  });

  test.for(["mail", "sign_up", "credential"])(
    "a successful attempt of kind %s still counts towards its limit",
    async (action, { db }) => {
      const attempt = anAttempt({ action });
      const pair = (await limitsOf(db)).find((limit) => limit.action === action && limit.scope === "pair");
      for (let made = 0; made < (pair?.attempts ?? 0); made += 1)
        expect(await attemptOnce(db, attempt, "succeeded")).toBe(true);
      expect(await begin(db, attempt)).toMatchObject({ allowed: false });
    },
  );

  test("an attempt that is completed too late, or never, still counts", async ({ db }) => {
    const attempt = anAttempt({ action: "code" });
    const id = await admitted(db, attempt);
    await db.query(`update private.open_attempts set expires_at = now() where ${ownRows}`);
    expect(await settle(db, id, "succeeded")).toBe(false);
    await exhaust(db, attempt, 4);
    expect(await begin(db, attempt)).toMatchObject({ allowed: false });
  });

  test("60 concurrent callers complete an attempt only once, and it is refunded only once", async () => {
    const { db, close } = openPool(20);
    try {
      const attempt = anAttempt();
      const id = await admitted(db, attempt);
      await admitted(db, attempt);
      const settled = await Promise.all(Array.from({ length: 60 }, () => settle(db, id, "void")));
      expect(settled.filter(Boolean)).toHaveLength(1);
      await exhaust(db, attempt, 9);
      expect(await begin(db, attempt)).toMatchObject({ allowed: false });
    } finally {
      await close();
    }
  });

  test("rejects an unknown outcome of an attempt", async ({ db }) => {
    const id = await admitted(db, anAttempt());
    expect((await failureOf(() => settle(db, id, "perhaps"))).code).toBe("22023");
  });
});

describe("delete_expired_attempts", () => {
  test("removes expired attempts, and removes blocks a month after they end", async ({ db }) => {
    await attemptOnce(db, anAttempt(), "succeeded");
    await admitted(db, anAttempt());
    await db.query(
      "insert into private.address_blocks (address, action, level, blocked_until) values ('203.0.113.9', 'password', 1, now() + interval '1 minute')",
    );
    const clear = async () =>
      (await one<{ cleared: number }>(db, { sql: "select private.delete_expired_attempts() as cleared" })).cleared;
    const left = async () => [
      await empty(db, "rate_limits"),
      await empty(db, "open_attempts"),
      await empty(db, "verified_addresses"),
    ];
    await clear();
    expect(await left()).toEqual([false, false, false]);
    await age(db, "30 days 1 second");
    expect(await clear()).toBeGreaterThan(0);
    expect(await left()).toEqual([true, true, true]);
    expect(await empty(db, "address_blocks")).toBe(false);
    await age(db, "1 minute");
    expect(await clear()).toBeGreaterThan(0);
    expect(await empty(db, "address_blocks")).toBe(true);
  });
});

describe("permissions of the attempt functions", () => {
  const calls = ["begin_attempt('{}')", "complete_attempt(gen_random_uuid(), 'void')", "delete_expired_attempts()"];

  test.for(calls)("only the service role can call private.%s", async (call, { db }) => {
    for (const role of ["anon", "authenticated", "gateway"] as const)
      expect((await failureOf(() => db.asRole(role, () => db.query(`select private.${call}`)))).code).toBe("42501");
  });

  test("the service role can use rate limits only through the attempt functions", async ({ db }) => {
    await db.asRole("service_role", async () => {
      const attempt = anAttempt();
      expect(await settle(db, await admitted(db, attempt), "succeeded")).toBe(true);
    });
    await db.asRole("service_role", () => db.query("select private.delete_expired_attempts()"));
    const call = "select private.consume_attempt('\\x00', 'password', 'pair', '1 second', '1 minute')";
    expect((await failureOf(() => db.asRole("service_role", () => db.query(call)))).code).toBe("42501");
  });
});
