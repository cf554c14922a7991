import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createUser, type Database, one, test } from "./database.ts";
import { openPool } from "./pools.ts";

const hash = "sha256(convert_to(gen_random_uuid()::text, 'UTF8'))";

/**
 * The scheduled functions that remove expired rows. Each entry names a function, one table that the function cleans,
 * and an expired row for that table.
 */
const cleanUps = [
  {
    call: "private.delete_expired_attempts",
    table: "private.rate_limits",
    row: `(subject, action, scope, full_at) select ${hash}, 'a', 's', '2000-01-01'`,
  },
  {
    call: "private.delete_expired_attempts",
    table: "private.open_attempts",
    row: "(action, address, charged, password_checks, expires_at) select 'a', '2001:db8::/64', '{}', 0, '2000-01-01'",
  },
  {
    call: "private.delete_expired_attempts",
    table: "private.verified_addresses",
    row: `(pair, verified_until) select ${hash}, '2000-01-01'`,
  },
  {
    call: "private.delete_expired_attempts",
    table: "private.address_blocks",
    row: `(address, action, level, blocked_at, blocked_until)
      select '2001:db8::/64', 'a', 1, '1999-12-31', '2000-01-01'`,
  },
  {
    call: "private.delete_expired_attempts",
    table: "private.idempotency_keys",
    row: `(caller_id, key, request_hash, answer, created_at)
      select gen_random_uuid(), 'k', ${hash}, '{}', now() - interval '25 hours'`,
  },
  {
    call: "private.sweep_oauth_attempts",
    table: "private.oauth_attempts",
    row: `(state_hash, purpose, provider, created_at, expires_at)
      select ${hash}, 'sign_in', 'google', '2000-01-01', '2000-01-01 00:01'`,
  },
  {
    call: "private.sweep_login_challenges",
    table: "private.login_challenges",
    row: `(kind, user_id, session_id, secret_hash, created_at, expires_at)
      select 'qr', $1::uuid, gen_random_uuid(), ${hash}, '2000-01-01', '2000-01-01 00:01'`,
  },
  {
    call: "private.sweep_recoveries",
    table: "private.recovery_code_guesses",
    row: "(email, last_wrong_at) select gen_random_uuid()::text, '2000-01-01'",
  },
  {
    call: "ai.delete_expired",
    table: "ai.rate_windows",
    row: `(scope, subject_id, window_start, requests, tokens) select 'key', gen_random_uuid(), '2000-01-01', 0, 0`,
  },
  {
    call: "ai.delete_expired",
    table: "ai.provider_outages",
    row: `(provider_id, began_at, ended_at) select 'openai', '2000-01-01', '2000-01-01'`,
  },
  {
    call: "ai.delete_expired",
    table: "ai.route_health",
    row: `(provider_id, provider_model, endpoint, reported_at)
      select 'unused', gen_random_uuid()::text, 'chat', '2000-01-01'`,
  },
] as const;

async function count(db: Database, table: string): Promise<number> {
  return (await one<{ count: number }>(db, { sql: `select count(*)::integer as count from ${table}` })).count;
}

async function expireThree(db: Database, { table, row }: (typeof cleanUps)[number]): Promise<void> {
  const { id } = await createUser(db);
  await db.query(
    `insert into ${table} ${row} from generate_series(1, 3)${row.includes("$1") ? "" : " where $1::uuid is not null"}`,
    [id],
  );
}

describe("clean-up functions", () => {
  test.for(cleanUps)("$call removes at most one batch of $table", async (cleanUp, { db }) => {
    const { call, table } = cleanUp;
    const clean = () => db.asRole("service_role", () => db.query(`select ${call}(2)`));
    while ((await one<{ n: number }>(db, { sql: `select ${call}(1000) as n` })).n > 0);
    const kept = await count(db, table);
    await expireThree(db, cleanUp);
    await clean();
    expect(await count(db, table)).toBe(kept + 1);
    await clean();
    expect(await count(db, table)).toBe(kept);
  });

  test("clean-up functions skip a locked row instead of waiting for it", async ({ db }) => {
    const pool = openPool(1);
    const email = `${randomUUID()}@x.test`;
    const sweep = "set lock_timeout = '1s'; select private.sweep_recoveries(); reset lock_timeout";
    const left = async () =>
      (await pool.db.query("select from private.recovery_code_guesses where email = $1", [email])).length;
    try {
      await pool.db.query(
        "insert into private.recovery_code_guesses (email, last_wrong_at) values ($1, '2000-01-01')",
        [email],
      );
      await db.query("select from private.recovery_code_guesses where email = $1 for update", [email]);
      await pool.db.query(sweep);
      expect(await left()).toBe(1);
      await db.query("rollback; begin");
      await pool.db.query(sweep);
      expect(await left()).toBe(0);
    } finally {
      await pool.close();
    }
  });
});
