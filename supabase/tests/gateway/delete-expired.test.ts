import { describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { begin, chatCall, createTenant, limitsOf, outcome, settle } from "./fixtures.ts";

const forget = async (db: Database, atMost = 10_000) => {
  const row = await one<{ forgotten: number }>(db, {
    sql: "select ai.delete_expired($1) as forgotten",
    values: [atMost],
  });
  return row.forgotten;
};
const count = async (db: Database, sql: string, values: unknown[]) =>
  (await one<{ count: number }>(db, { sql: `select count(*)::int as count from ${sql}`, values })).count;

describe("deletion of expired rows", () => {
  test("deletes idempotency keys after 24 hours and not before, and keeps their runs", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const keyed = (idempotency_key: string) => chatCall(tenant, { idempotency_key, fingerprint: "ab".repeat(32) });
    await settle(db, [outcome(await begin(db, keyed("old"))), outcome(await begin(db, keyed("young")))]);
    const age =
      "update ai.idempotency_keys set expires_at = now() + $3 * interval '1 second' where key = $2 and workspace_id = $1";
    await db.query(age, [tenant.workspaceId, "old", -0.000001]);
    await db.query(age, [tenant.workspaceId, "young", 1]);
    await forget(db);
    const left = await db.query("select key from ai.idempotency_keys where workspace_id = $1", [tenant.workspaceId]);
    expect(left).toEqual([{ key: "young" }]);
    expect(await count(db, "ai.runs where workspace_id = $1", [tenant.workspaceId])).toBe(2);
    expect(await begin(db, keyed("young"))).toMatchObject({ refused: "idempotency_key_used" });
    expect(await begin(db, keyed("old"))).not.toHaveProperty("refused");
  });

  test("deletes rate windows older than an hour, and the caller's next call opens a new window", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", key: { requestsPerMinute: 1 } });
    await begin(db, chatCall(tenant));
    const age = "update ai.rate_windows set window_start = now() - $2 * interval '1 minute' where subject_id = $1";
    const windows = () => count(db, "ai.rate_windows where subject_id = $1", [tenant.keyId]);
    await db.query(age, [tenant.keyId, 60]);
    await forget(db);
    expect(await windows()).toBe(1);
    await db.query(age, [tenant.keyId, 61]);
    await forget(db);
    expect(await windows()).toBe(0);
    expect(limitsOf(await begin(db, chatCall(tenant))).requests?.remaining).toBe(0);
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "rate_limit_exceeded" });
  });

  test("deletes a limited number of rows at a time, so that callers don't wait long", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    for (const idempotency_key of ["a", "b", "c"]) {
      await begin(db, chatCall(tenant, { idempotency_key, fingerprint: "ab".repeat(32) }));
    }
    await db.query("update ai.idempotency_keys set expires_at = '2000-01-01' where workspace_id = $1", [
      tenant.workspaceId,
    ]);
    await forget(db, 2);
    expect(await count(db, "ai.idempotency_keys where workspace_id = $1", [tenant.workspaceId])).toBe(1);
  });

  test("ai.fits_window refuses a call that has no rate window", async ({ db }) => {
    expect(await one(db, { sql: "select ai.fits_window(null, 1, 1, 1, null) as fits" })).toEqual({ fits: false });
  });

  test("of 40 concurrent callers that reuse an expired idempotency key during its deletion, exactly one is admitted", async () => {
    const { db, close } = openPool(16);
    try {
      const tenant = await createTenant(db, { credits: "1000", key: { requestsPerMinute: 30 } });
      const call = chatCall(tenant, { idempotency_key: "k", fingerprint: "ab".repeat(32) });
      await settle(db, [outcome(await begin(db, call))]);
      await db.query("update ai.idempotency_keys set expires_at = now() where workspace_id = $1", [tenant.workspaceId]);
      await db.query("update ai.rate_windows set window_start = now() - interval '2 hours' where subject_id = $1", [
        tenant.keyId,
      ]);
      const answers = await Promise.all(
        Array.from({ length: 60 }, (_, n) => (n % 3 === 2 ? forget(db).then(() => null) : begin(db, call))),
      );
      const verdicts = answers.filter((answer) => answer !== null).map(({ refused }) => refused ?? "admitted");
      expect(verdicts.filter((verdict) => verdict === "admitted")).toHaveLength(1);
      // A new minute may begin during the test, so `rate_limit_exceeded` is possible but not required.
      const others = verdicts.filter((verdict) => verdict !== "admitted" && verdict !== "rate_limit_exceeded");
      expect(new Set(others)).toEqual(new Set(["request_in_progress"]));
    } finally {
      await close();
    }
  });
});
