import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { answerTimeoutMs, databaseWaitMs } from "./connections.ts";
import { touchIntervalMs } from "./runs/open-runs.ts";

const supabase = new URL("../../", import.meta.url);

/** Returns the seconds that a pattern finds in a file of `supabase/`, in milliseconds. */
function secondsIn(file: string, pattern: RegExp): number {
  const seconds = Number(pattern.exec(readFileSync(new URL(file, supabase), "utf8"))?.[1]);
  expect(seconds, `${pattern} in ${file}`).toBeGreaterThan(0);
  return seconds * 1_000;
}

const sweep = "schemas/gateway/sweep.sql";
const roles = "migrations/20260801090000_schemas_and_roles.sql";

test("the sweep leaves a run open whose admission took as long as a call may wait, until its first heartbeat", () => {
  const abandonedMs = secondsIn(sweep, /cutoff timestamptz := now\(\) - interval '(\d+) seconds'/);
  expect(abandonedMs).toBeGreaterThanOrEqual(databaseWaitMs + touchIntervalMs + 5_000);
});

test("the sweep's margin is longer than an admission may take to get its transaction id", () => {
  const marginMs = secondsIn(sweep, /marked_at - interval '(\d+) seconds'/);
  const startMs = secondsIn(
    "schemas/gateway/admission.sql",
    /clock_timestamp\(\) - now\(\) > interval '(\d+) seconds'/,
  );
  expect(marginMs).toBeGreaterThan(startMs);
});

test("orphaned runs are found however long the statement that releases them was under way", () => {
  const lookBackMs = secondsIn(sweep, /now\(\) - interval '(\d+) seconds' - \(lost/);
  expect(lookBackMs).toBeGreaterThan(answerTimeoutMs);
});

test("a statement of the gateway's role times out before the gateway gives up on it, and a lock before the statement", () => {
  const statementMs = secondsIn(roles, /alter role gateway set statement_timeout = '(\d+)s'/);
  const lockMs = secondsIn(roles, /alter role gateway set lock_timeout = '(\d+)s'/);
  expect(lockMs).toBeLessThan(statementMs);
  expect(statementMs).toBeLessThan(answerTimeoutMs);
  expect(lockMs).toBeLessThan(databaseWaitMs);
});
