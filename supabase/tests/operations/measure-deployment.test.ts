import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { begin, chatCall, createTenant } from "../gateway/fixtures.ts";

type Measured = Record<string, number | string | null> & {
  totals: { figure: string; label: string; total: string }[];
};

/** Measures as our server does, and counts the same another way, in one statement and so in one snapshot. */
async function measure(db: Database): Promise<{ measured: Measured; counted: Record<string, number> }> {
  return db.asRole("service_role", () =>
    one<{ measured: Measured; counted: Record<string, number> }>(db, {
      sql: `select private.measure_deployment() as measured, (
              select jsonb_build_object(
                'openRuns', count(*), 'reservedUsd', sum(r.reserved_usd)::float8,
                'oldestOpenRunSeconds', extract(epoch from now() - min(r.created_at))
              )
              from ai.runs r where r.status = 'running'
            ) as counted`,
    }),
  );
}

describe("private.measure_deployment", () => {
  test("counts every open run once: those that the sweep has seen, and those since", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const [old] = [await begin(db, chatCall(tenant)), await begin(db, chatCall(tenant))];
    await db.query("update ai.runs set created_at = now() - interval '20 minutes' where id = $1", [old.run_id]);
    await db.query(
      "update ai.sweep_progress set seen_until = now() - interval '50 seconds', sure_until = least(sure_until, now() - interval '50 seconds')",
    );
    // Another file may have recorded younger runs, as the sweep does not.
    await db.query("delete from ai.long_running_runs where run_created_at > now() - interval '50 seconds'");
    await db.query(
      `insert into ai.long_running_runs
       select r.created_at, r.id from ai.runs r where r.status = 'running' and r.created_at <= now() - interval '50 seconds'
       on conflict do nothing`,
    );
    const { measured, counted } = await measure(db);
    expect({ ...measured, reservedUsd: Number(measured.reservedUsd) }).toMatchObject(counted);
    expect(counted.openRuns).toBeGreaterThanOrEqual(2);
    expect(Number(measured.oldestOpenRunSeconds)).toBeGreaterThanOrEqual(1_200);
    expect(measured.longRunningRuns).toBeGreaterThanOrEqual(1);
    expect(Number(measured.sweepAgeSeconds)).toBeCloseTo(50);
  });

  test("tells emails that wait from those that were given up, and how long one has been due", async ({ db }) => {
    // Keeps out the emails that other tests commit meanwhile.
    await db.query("lock table private.outgoing_mails in share row exclusive mode");
    await db.query("delete from private.outgoing_mails where true");
    const queue = (attempts: number, due: string) =>
      db.query(
        `insert into private.outgoing_mails (recipient, subject, body, attempts, next_attempt_at)
         values ('a@example.com', 's', 'b', $1, now() - $2::interval)`,
        [attempts, due],
      );
    const mails = async () => {
      const { mailsWaiting, mailsFailed, mailsDueSeconds } = (await measure(db)).measured;
      return { mailsWaiting, mailsFailed, mailsDueSeconds };
    };
    expect(await mails()).toEqual({ mailsWaiting: 0, mailsFailed: 0, mailsDueSeconds: 0 });
    await queue(12, "3 days");
    await queue(11, "5 minutes");
    await queue(1, "-1 hour");
    expect(await mails()).toEqual({ mailsWaiting: 2, mailsFailed: 1, mailsDueSeconds: 300 });
  });

  test("counts addresses that are blocked now", async ({ db }) => {
    await db.query("delete from private.address_blocks where true");
    await db.query(
      `insert into private.address_blocks (address, action, level, blocked_at, blocked_until, lifted_at, lift_reason)
       values
         ('192.0.2.1', 'password', 1, now() - interval '1 hour', now() + interval '1 hour', null, null),
         ('192.0.2.2', 'password', 1, now() - interval '1 hour', now() - interval '1 second', null, null),
         ('192.0.2.3', 'password', 1, now() - interval '1 hour', now() + interval '1 hour', now(), 'a mistake')`,
    );
    expect((await measure(db)).measured.blockedAddresses).toBe(1);
  });

  test("has no ages before the first sweep and the first sums, and returns exact totals", async ({ db }) => {
    const label = `l-${randomUUID()}`;
    await db.query("update ai.sweep_progress set seen_until = '-infinity', sure_until = '-infinity'");
    await db.query("update ai.usage_progress set summed_until = '-infinity'");
    await db.query("insert into ai.totals values ('cost_usd', $1, 0.000000000001)", [label]);
    const { measured } = await measure(db);
    expect(measured).toMatchObject({ sweepAgeSeconds: null, usageAgeSeconds: null });
    expect(measured.totals).toContainEqual({ figure: "cost_usd", label, total: "0.000000000001" });
  });

  test("is only for our server", async ({ db }) => {
    for (const role of ["anon", "authenticated", "gateway"] as const) {
      await expect(
        db.asRole(role, () => db.query("select private.measure_deployment()")),
        role,
      ).rejects.toThrow(/permission denied/);
    }
  });
});
