import { describe, expect } from "vitest";
import { newAddress } from "../../../remix-app/testing/visitor.ts";
import { age, attemptOnce, begin, tellHook } from "../abuse/attempt-fixtures.ts";
import { createUser, type Database, one, signIn, test } from "../database.ts";
import { ask, issue, needHelp, override, overviewOf, wrongHash } from "./fixtures.ts";

const locksOf = async (db: Database, email: string) => (await overviewOf(db, email)).locks;
const limitOf = async (db: Database, { email, ...limit }: { email: string; action: string; scope: string }) =>
  (await locksOf(db, email)).filter(({ action, scope }) => action === limit.action && scope === limit.scope);

/** Returns the seconds until a time, by the clock of the test's transaction. */
async function secondsUntil(db: Database, until: string | null | undefined): Promise<number> {
  const sql = "select extract(epoch from $1::timestamptz - now())::float8 as seconds";
  return (await one<{ seconds: number }>(db, { sql, values: [until ?? null] })).seconds;
}

async function repeat(count: number, work: () => Promise<unknown>): Promise<void> {
  for (let made = 0; made < count; made += 1) await work();
}

describe("the limits of an email", () => {
  test.for([
    { action: "password", by: "email", attempts: 10, seconds: 90 },
    { action: "sign_in_code", by: "email", attempts: 5, seconds: 180 },
    { action: "mail", by: "email", attempts: 5, seconds: 180 },
    { action: "code", by: "userId", attempts: 5, seconds: 180 },
    { action: "credential", by: "userId", attempts: 20, seconds: 180 },
  ] as const)(
    "$attempts attempts of kind $action at one account from one address lock it for $seconds seconds, and no sooner",
    async ({ action, by, attempts, seconds }, { db }) => {
      const { id, email } = await createUser(db);
      const attempt = { action, address: newAddress(), ...(by === "email" ? { email } : { userId: id }) };
      const pair = () => limitOf(db, { email, action, scope: "pair" });
      await repeat(attempts - 1, () => begin(db, attempt));
      const limit = { kind: "limit", attempts, perSeconds: attempts * seconds, whenEmpty: "refuse" };
      expect(await pair()).toMatchObject([{ ...limit, used: attempts - 1, until: null }]);
      await begin(db, attempt);
      const [locked] = await pair();
      expect(locked).toMatchObject({ ...limit, used: attempts });
      expect(await secondsUntil(db, locked?.until)).toBeCloseTo(seconds, 3);
      expect(await begin(db, attempt)).toMatchObject({ allowed: false, retryAfterSeconds: seconds });
      await age(db, `${seconds - 1} seconds`);
      expect(await secondsUntil(db, (await pair())[0]?.until)).toBeCloseTo(1, 3);
      await age(db, "1 second");
      expect(await pair()).toMatchObject([{ used: attempts - 1, until: null }]);
      expect(await begin(db, attempt)).toMatchObject({ allowed: true });
    },
  );

  test("show each address that locks, and not the addresses that don't", async ({ db }) => {
    const { email } = await createUser(db);
    const from = (address: string) => ({ action: "password", email, address });
    const addresses = [newAddress(), newAddress(), newAddress()] as const;
    const pairs = () => limitOf(db, { email, action: "password", scope: "pair" });
    await repeat(3, () => begin(db, from(addresses[2])));
    await begin(db, from(addresses[0]));
    expect(await pairs()).toMatchObject([{ used: 3, until: null }]);
    await repeat(9, () => begin(db, from(addresses[0])));
    await repeat(10, () => begin(db, from(addresses[1])));
    expect(await pairs()).toMatchObject([{ until: expect.any(String) }, { until: expect.any(String) }]);
    const { locks } = await overviewOf(db, email);
    for (const address of addresses) expect(JSON.stringify(locks)).not.toContain(address);
    await attemptOnce(db, from(addresses[2]), "succeeded");
    expect(await pairs()).toHaveLength(2);
  });

  test("never lock if they ask for a bot challenge, and lock once they refuse without one", async ({ db }) => {
    const { email } = await createUser(db);
    const fromElsewhere = () => begin(db, { action: "mail", email, address: newAddress() });
    const scope = async (name: string) => (await limitOf(db, { email, action: "mail", scope: name }))[0];
    await repeat(29, fromElsewhere);
    expect(await scope("account")).toMatchObject({ used: 10, attempts: 10, whenEmpty: "challenge", until: null });
    expect(await scope("account_cap")).toMatchObject({ used: 29, attempts: 30, whenEmpty: "refuse_new", until: null });
    await fromElsewhere();
    expect(await scope("account_cap")).toMatchObject({ used: 30, until: expect.any(String) });
    expect(await scope("account")).toMatchObject({ until: null });
  });

  test("include limits on direct calls of the identity backend", async ({ db }) => {
    const { id, email } = await createUser(db);
    const event = { userId: id, valid: false, address: newAddress() };
    await repeat(10, () => tellHook(db, "password_verification_attempt", event));
    await repeat(9, () => tellHook(db, "mfa_verification_attempt", event));
    expect(await limitOf(db, { email, action: "direct_password", scope: "pair" })).toMatchObject([
      { used: 10, until: expect.any(String) },
    ]);
    expect(await limitOf(db, { email, action: "direct_code", scope: "account" })).toMatchObject([
      { used: 9, attempts: 10, until: null },
    ]);
  });

  test("don't lock while a recovery override lifts them, and include the higher limits under it", async ({ db }) => {
    const people = await needHelp(db);
    const { actor, email } = people;
    const attempt = { action: "password", email, address: newAddress(), allowOverride: true };
    const password = () => limitOf(db, { email, action: "password", scope: "pair" });
    await repeat(10, () => begin(db, attempt));
    expect(await password()).toMatchObject([{ used: 10, until: expect.any(String) }]);
    const forEmails = await override(db, { actor, email, normalLogin: false });
    expect(await password()).toMatchObject([{ used: 10, until: expect.any(String) }]);
    await ask(db, "revoke_recovery_override", { actor, overrideId: forEmails, reason: "another kind" });
    await override(db, people);
    expect(await password()).toMatchObject([{ used: 10, until: null }]);
    expect(await begin(db, attempt)).toMatchObject({ allowed: true });
    await repeat(9, () => begin(db, attempt));
    expect(await limitOf(db, { email, action: "override_password", scope: "pair" })).toMatchObject([
      { until: expect.any(String) },
    ]);
    await ask(db, "verify_override_password", { email, password: "wrong" });
    expect(await limitOf(db, { email, action: "override_password", scope: "account" })).toMatchObject([{ used: 11 }]);
  });

  test("leave out limits of the address, of emails that wait their turn, and of other accounts", async ({ db }) => {
    const [own, other] = [await createUser(db), await createUser(db)];
    const address = newAddress();
    await begin(db, { action: "sign_up", mail: "sign_up_mail", email: own.email, address });
    await begin(db, { action: "sign_in_code", code: "1234567890", email: own.email, address });
    await begin(db, { action: "password", email: other.email, address });
    const found = (await locksOf(db, own.email)).map(({ action, scope }) => `${action} ${scope}`);
    expect(found.toSorted()).toEqual([
      "sign_in_code account",
      "sign_in_code pair",
      "sign_up account",
      "sign_up account_cap",
      "sign_up pair",
    ]);
    expect(await locksOf(db, `${crypto.randomUUID()}@example.test`)).toEqual([]);
  });
});

describe("other locks of an email", () => {
  test("a ban locks until it ends", async ({ db }) => {
    const { id, email } = await createUser(db);
    const ban = (minutes: number) =>
      db.query("update auth.users set banned_until = now() + make_interval(mins => $2) where id = $1", [id, minutes]);
    await ban(5);
    const [lock] = await locksOf(db, email.toUpperCase());
    expect(lock).toMatchObject({ kind: "ban" });
    expect(await secondsUntil(db, lock?.until)).toBeCloseTo(300, 3);
    await ban(0);
    expect(await locksOf(db, email)).toEqual([]);
  });

  test("the fifth wrong code of a recovery email locks the codes for a day", async ({ db }) => {
    const people = await needHelp(db);
    const { email } = people;
    await issue(db, { ...people, overrideId: await override(db, people) });
    const guess = () => ask(db, "consume_recovery_credential", { email, codeHash: wrongHash });
    expect(await locksOf(db, email)).toEqual([]);
    await repeat(4, guess);
    expect(await locksOf(db, email)).toEqual([{ kind: "codes", wrong: 4, until: null }]);
    await guess();
    const [lock] = await locksOf(db, email);
    expect(lock).toMatchObject({ kind: "codes", wrong: 5 });
    expect(await secondsUntil(db, lock?.until)).toBeCloseTo(86_400, 3);
    await db.query(
      `update private.recovery_code_guesses
       set last_wrong_at = last_wrong_at - interval '1 day', locked_until = locked_until - interval '1 day'
       where email = $1`,
      [email],
    );
    expect(await locksOf(db, email)).toEqual([]);
  });

  test("a block of a network from which the account was used locks until it ends or is lifted", async ({ db }) => {
    const { id, email } = await createUser(db);
    const { session_id } = await signIn(db, { userId: id });
    const [used, unused] = [newAddress(), newAddress()];
    await db.query("update auth.sessions set ip = $2 where id = $1", [session_id, used]);
    const block = async (address: string) =>
      (
        await one<{ id: string }>(db, {
          sql: `insert into private.address_blocks (address, action, level, blocked_until)
                values (private.address_network($1), 'password', 1, now() + interval '15 minutes') returning id`,
          values: [address],
        })
      ).id;
    await block(unused);
    expect(await locksOf(db, email)).toEqual([]);
    const blockId = await block(used);
    const [lock, ...others] = await locksOf(db, email);
    expect(lock).toMatchObject({ kind: "block", blockId, address: expect.any(String) });
    expect(others).toEqual([]);
    expect(await secondsUntil(db, lock?.until)).toBeCloseTo(900, 3);
    await db.query("select private.unblock_address('test', $1)", [used]);
    expect(await locksOf(db, email)).toEqual([]);
  });

  test("come before limits that don't lock", async ({ db }) => {
    const { id, email } = await createUser(db);
    const attempt = { action: "password", email, address: newAddress() };
    await begin(db, { ...attempt, action: "mail" });
    await repeat(10, () => begin(db, attempt));
    await db.query("update auth.users set banned_until = now() + interval '1 day' where id = $1", [id]);
    const locks = await locksOf(db, email);
    expect(locks.slice(0, 2)).toMatchObject([{ kind: "ban" }, { kind: "limit", action: "password", scope: "pair" }]);
    expect(locks.slice(2).map(({ until }) => until)).toEqual(locks.slice(2).map(() => null));
  });
});
