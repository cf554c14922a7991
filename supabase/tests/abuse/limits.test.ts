import { describe, expect } from "vitest";
import { newAddress } from "../../../remix-app/testing/visitor.ts";
import { failureOf } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { admitted, age, anAttempt, attemptOnce, begin, ownRows, settle } from "./attempt-fixtures.ts";

const failuresAllowed = 100;

const minutes = (count: number) => count * 60;
const hours = (count: number) => count * 3_600;

/** Records failures from an address, as if the address had tried many accounts. */
async function failFrom(db: Database, address: string, times: number): Promise<void> {
  await db.query(
    "select private.count_failure('password', private.address_network($1)) from generate_series(1, $2::int)",
    [address, times],
  );
}

const blocksOf = (db: Database, address: string) =>
  db.query<{ level: number; action: string; seconds: number }>(
    `select level, action, extract(epoch from blocked_until - blocked_at)::int as seconds
     from private.address_blocks where address = private.address_network($1) order by blocked_at, level`,
    [address],
  );

describe("blocking an address", () => {
  test(`blocks an address at failure number ${failuresAllowed} + 1 within an hour, and not before`, async ({ db }) => {
    const address = newAddress();
    for (let made = 0; made < failuresAllowed; made += 1) {
      await attemptOnce(db, anAttempt({ address }), "failed");
      // Resets the address's limit on attempts, but not the window that counts its failures.
      await db.query(`delete from private.rate_limits where action <> 'failure' and ${ownRows}`);
    }
    expect(await blocksOf(db, address)).toEqual([]);
    await attemptOnce(db, anAttempt({ address }), "failed");
    expect(await blocksOf(db, address)).toEqual([{ level: 1, action: "password", seconds: minutes(15) }]);
  });

  test("a blocked address can't attempt anything, and other addresses can", async ({ db }) => {
    const address = newAddress();
    await failFrom(db, address, failuresAllowed + 1);
    for (const action of ["password", "code", "mail", "sign_up", "passkey", "credential"]) {
      expect(await begin(db, anAttempt({ action, address, challenged: true }))).toEqual({
        allowed: false,
        reason: "blocked",
        retryAfterSeconds: minutes(15),
      });
    }
    expect(await begin(db, anAttempt())).toMatchObject({ allowed: true });
  });

  test("the first block of an address ends after exactly 15 minutes", async ({ db }) => {
    const address = newAddress();
    await failFrom(db, address, failuresAllowed + 1);
    await age(db, "14 minutes 59 seconds");
    expect(await begin(db, anAttempt({ address }))).toMatchObject({ reason: "blocked", retryAfterSeconds: 1 });
    await age(db, "1 second");
    expect(await begin(db, anAttempt({ address }))).toMatchObject({ allowed: true });
  });

  test("each time an address is blocked again within a week, the block lasts longer, up to a day", async ({ db }) => {
    const address = newAddress();
    const lengths = [minutes(15), hours(1), hours(6), hours(24), hours(24)];
    for (const seconds of lengths) {
      await failFrom(db, address, failuresAllowed + 1);
      expect((await blocksOf(db, address)).at(-1)).toMatchObject({ seconds });
      await age(db, `${seconds} seconds`);
    }
    expect((await blocksOf(db, address)).map(({ level }) => level)).toEqual([1, 2, 3, 4, 5]);
  });

  test.for([
    { after: "6 days 23 hours", level: 2 },
    { after: "7 days", level: 1 },
  ])(
    "an address that is blocked again $after after its last block expired is at level $level",
    async ({ after, level }, { db }) => {
      const address = newAddress();
      await failFrom(db, address, failuresAllowed + 1);
      await age(db, "15 minutes");
      await age(db, after);
      await failFrom(db, address, failuresAllowed + 1);
      expect((await blocksOf(db, address)).at(-1)).toMatchObject({ level });
    },
  );

  test("lifting an address's block allows new attempts, and a lifted block does not lengthen the next one", async ({
    db,
  }) => {
    const address = newAddress();
    await failFrom(db, address, failuresAllowed + 1);
    await db.asRole("service_role", () =>
      db.query(`update private.address_blocks set lifted_at = now(), lift_reason = 'an office' where ${ownRows}`),
    );
    expect(await begin(db, anAttempt({ address }))).toMatchObject({ allowed: true });
    await failFrom(db, address, failuresAllowed + 1);
    expect((await blocksOf(db, address)).at(-1)).toMatchObject({ level: 1 });
  });

  test("all IPv6 addresses of a /64 network are counted as one address", async ({ db }) => {
    await failFrom(db, "2001:db8:9:9::1", failuresAllowed + 1);
    expect(await begin(db, anAttempt({ address: "2001:db8:9:9:8::8" }))).toMatchObject({ reason: "blocked" });
    expect(await begin(db, anAttempt({ address: "2001:db8:9:a::1" }))).toMatchObject({ allowed: true });
  });

  test("blocks an address that keeps trying while it is rate-limited", async ({ db }) => {
    const attempt = anAttempt({ action: "code" });
    for (let made = 0; made < 5; made += 1) await admitted(db, attempt);
    for (let made = 0; made < failuresAllowed; made += 1)
      expect(await begin(db, attempt)).toMatchObject({ reason: "limited" });
    await begin(db, attempt);
    expect(await begin(db, attempt)).toMatchObject({ reason: "blocked" });
  });

  test("does not block an address whose attempts succeed or are void", async ({ db }) => {
    const address = newAddress();
    for (let made = 0; made < 60; made += 1) {
      await attemptOnce(db, anAttempt({ address }), made % 2 === 0 ? "succeeded" : "void");
      await db.query(`delete from private.rate_limits where action <> 'failure' and ${ownRows}`);
    }
    expect(await db.query(`select from private.rate_limits where action = 'failure' and ${ownRows}`)).toEqual([]);
  });

  test("60 concurrent failures block an address only once", async () => {
    const { db, close } = openPool(20);
    try {
      const address = newAddress();
      const ids: string[] = [];
      for (let made = 0; made < 60; made += 1) ids.push(await admitted(db, anAttempt({ address })));
      const subject = "(select subject from private.attempt_buckets('failure', null, private.address_network($1)))";
      await db.query(
        `insert into private.rate_limits (subject, action, scope, full_at)
         values (${subject}, 'failure', 'address', now() + interval '1 hour')`,
        [address],
      );
      await Promise.all(ids.map((id) => settle(db, id, "failed")));
      expect(await blocksOf(db, address)).toEqual([{ level: 1, action: "password", seconds: minutes(15) }]);
    } finally {
      await close();
    }
  });
});

describe("address_blocks", () => {
  test("address_blocks shows the reason for which a block was lifted, or null", async ({ db }) => {
    const insert = (columns: string, values: string) =>
      db.query(
        `insert into private.address_blocks (address, action, level, blocked_until${columns})
         values ('203.0.113.1', 'password', 1, now() + interval '1 hour'${values})`,
      );
    await insert(", lifted_at, lift_reason", ", now(), 'an office'");
    expect((await failureOf(() => insert(", lifted_at", ", now()"))).code).toBe("23514");
  });

  test("keeps a block after the account that lifted it is deleted", async ({ db }) => {
    const row = await one<{ action: string }>(db, {
      sql: `select confdeltype as action from pg_constraint where conname = 'address_blocks_lifted_by_fkey'`,
    });
    expect(row.action).toBe("n");
  });
});

describe("requests of service accounts to the admin API", () => {
  test("are limited to 600 a minute for each service account, and one more every 100 ms", async ({ db }) => {
    const [account, other] = [crypto.randomUUID(), crypto.randomUUID()];
    const countRequests = (id: string, times: number) =>
      db.asRole("service_role", () =>
        db.query<{ wait: number | null; requests: number }>(
          `select r.wait, count(*)::int as requests
            from (select private.count_admin_request($1) as wait from generate_series(1, $2::int)) r group by 1`,
          [id, times],
        ),
      );
    expect(await countRequests(account, 600)).toEqual([{ wait: null, requests: 600 }]);
    expect(await countRequests(account, 2)).toEqual([{ wait: 1, requests: 2 }]);
    expect(await countRequests(other, 1)).toEqual([{ wait: null, requests: 1 }]);
    await db.query("update private.rate_limits set full_at = full_at - interval '100 ms' where action = 'admin_api'");
    expect(await countRequests(account, 1)).toEqual([{ wait: null, requests: 1 }]);
    expect(await countRequests(account, 1)).toEqual([{ wait: 1, requests: 1 }]);
  });
});
