import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { attemptFailures } from "../../functions/_shared/attempt.ts";
import { type Database, one, test } from "../database.ts";

type Report = {
  provider: string;
  answered?: number;
  failing?: number;
  failed?: number;
  failures?: number;
  failure?: string;
  status?: number;
  cooldown?: number;
  model?: string;
};
type State = {
  state: string;
  failures: number;
  /** Seconds ago, except for the cooldown. */
  failing: number | null;
  failed: number | null;
  answered: number | null;
  cooldown: number | null;
  failure: string | null;
  status: number | null;
};

const providerId = () => `p${randomUUID().replaceAll("-", "").slice(0, 20)}`;
const ms = (seconds: number | undefined) => (seconds === undefined ? undefined : seconds * 1_000);

/** Stores reports of a process. Their times are seconds before the test's transaction. */
async function report(db: Database, ...reports: Report[]): Promise<void> {
  const batch = reports.map(({ provider, model = "m", answered, failing, failed, failures, cooldown, ...rest }) => ({
    provider,
    model,
    endpoint: "chat",
    answered_ms_ago: ms(answered),
    failing_ms_ago: ms(failing),
    failed_ms_ago: ms(failed ?? failing),
    failures: failures ?? (failing === undefined ? 0 : 1),
    cooldown_ms: ms(cooldown),
    ...rest,
  }));
  await db.asRole("gateway", () => db.query("select ai.report_routes($1)", [JSON.stringify(batch)]));
}

/** Returns the health of a provider's route, some seconds after the reports. */
function healthOf(db: Database, { provider, after = 0 }: { provider: string; after?: number }): Promise<State> {
  return one<State>(db, {
    sql: `select ai.route_state(h, now() + $2 * interval '1 second') as state, failures_in_row as failures,
        extract(epoch from now() - failing_since)::float as failing, extract(epoch from now() - failed_at)::float as failed,
        extract(epoch from now() - answered_at)::float as answered,
        extract(epoch from skipped_until - now())::float as cooldown, failure, status
      from ai.route_health h where provider_id = $1`,
    values: [provider, after],
  });
}

describe("the health of routes", () => {
  test.for([
    [2, "quiet"],
    [3, "failing"],
  ] as const)(
    "a route that never answered is failing from the third failure in a row: %i",
    async ([failures, state], { db }) => {
      const provider = providerId();
      // Processes that make one call each.
      for (let n = failures; n > 0; n -= 1)
        await report(db, { provider, failing: n * 10, failure: "server_error", status: 500 });
      expect(await healthOf(db, { provider })).toMatchObject({
        state,
        failures,
        failing: failures * 10,
        failed: 10,
        failure: "server_error",
        status: 500,
      });
    },
  );

  test("a route with two failures after an answer still works, and an answer ends three failures", async ({ db }) => {
    const provider = providerId();
    await report(db, { provider, answered: 50, failing: 40, failed: 30, failures: 2 });
    expect(await healthOf(db, { provider })).toMatchObject({ state: "working", failures: 2 });
    await report(db, { provider, failing: 40, failed: 20, failures: 1 });
    expect(await healthOf(db, { provider })).toMatchObject({ state: "failing", failures: 3, failing: 40 });
    await report(db, { provider, answered: 10 });
    expect(await healthOf(db, { provider })).toMatchObject({
      state: "working",
      failures: 0,
      failing: null,
      failed: 20,
    });
  });

  test("a route is skipped until its cooldown ends, then failing until it answers", async ({ db }) => {
    const provider = providerId();
    await report(db, { provider, failing: 5, failure: "rate_limited", status: 429, cooldown: 30 });
    expect(await healthOf(db, { provider, after: 29.999 })).toMatchObject({ state: "skipped", cooldown: 30 });
    expect(await healthOf(db, { provider, after: 30 })).toMatchObject({ state: "failing", failures: 1 });
    await report(db, { provider, answered: 0 });
    expect(await healthOf(db, { provider, after: 30 })).toMatchObject({ state: "working" });
  });

  test("an answer to one process doesn't end the cooldown of another, nor does a shorter cooldown", async ({ db }) => {
    const provider = providerId();
    await report(db, { provider, failing: 5, cooldown: 30 });
    await report(db, { provider, answered: 1 });
    await report(db, { provider, failing: 0, cooldown: 1 });
    expect(await healthOf(db, { provider })).toMatchObject({ state: "skipped", cooldown: 30, failing: 0 });
  });

  test("an answer ends the cooldown of its own process, which is known by its end", async ({ db }) => {
    const provider = providerId();
    await report(db, { provider, failing: 5, cooldown: 30 });
    await report(db, { provider, answered: 1, cooldown: 24 });
    expect(await healthOf(db, { provider })).toMatchObject({ state: "skipped", cooldown: 30 });
    await report(db, { provider, answered: 0, cooldown: 26 });
    expect(await healthOf(db, { provider })).toMatchObject({ state: "working", cooldown: 0 });
  });

  test("reports that arrive out of order move no time back", async ({ db }) => {
    const provider = providerId();
    await report(db, { provider, failing: 20, failed: 10, failures: 3, failure: "timeout" });
    // Another process was answered before these failures.
    await report(db, { provider, answered: 30, failing: 40, failed: 35, failure: "server_error", status: 502 });
    expect(await healthOf(db, { provider })).toMatchObject({
      state: "failing",
      failures: 3,
      failing: 20,
      failed: 10,
      answered: 30,
      failure: "timeout",
      status: null,
    });
    await report(db, { provider, answered: 5 });
    await report(db, { provider, failing: 9, failed: 6, failures: 3 });
    expect(await healthOf(db, { provider })).toMatchObject({ state: "working", failures: 0, failing: null, failed: 6 });
  });

  test("an answer between the failures of another process leaves only the last of them", async ({ db }) => {
    const provider = providerId();
    await report(db, { provider, failing: 30, failed: 10, failures: 3 });
    await report(db, { provider, answered: 20 });
    expect(await healthOf(db, { provider })).toMatchObject({ state: "working", failures: 1, failing: 10 });
  });

  test("failures of two processes after the last answer count together", async ({ db }) => {
    const provider = providerId();
    await report(db, { provider, answered: 40, failing: 30, failed: 20, failures: 2 });
    await report(db, { provider, failing: 25, failed: 25, failures: 1 });
    expect(await healthOf(db, { provider })).toMatchObject({ state: "failing", failures: 3, failing: 30, failed: 20 });
  });

  test("a repeated report without new failures counts none", async ({ db }) => {
    const provider = providerId();
    await report(db, { provider, failing: 20, failed: 10, failures: 2 });
    await report(db, { provider, failing: 20, failed: 10, failures: 0 });
    expect(await healthOf(db, { provider })).toMatchObject({ failures: 2 });
  });

  test("ages beyond a year and in the future are bounded, because clocks may be wrong", async ({ db }) => {
    const provider = providerId();
    await report(db, { provider, failing: 1e9, failed: -90_000, cooldown: 90_000 });
    expect(await healthOf(db, { provider })).toMatchObject({ failing: 366 * 86_400, failed: 0, cooldown: 3_600 });
  });

  test("later reports don't move times of hours ago", async ({ db }) => {
    const [failing, working] = [providerId(), providerId()];
    await report(db, { provider: failing, answered: 9_000, failing: 8_000, failed: 60, failures: 40 });
    await report(db, { provider: failing, answered: 9_000, failing: 8_000, failed: 0, failures: 1 });
    expect(await healthOf(db, { provider: failing })).toMatchObject({ answered: 9_000, failing: 8_000, failures: 41 });
    await report(db, { provider: working, failed: 7_200, failure: "rate_limited", status: 429, answered: 100 });
    await report(db, { provider: working, failed: 86_400, failure: "timeout", answered: 0 });
    expect(await healthOf(db, { provider: working })).toMatchObject({
      failed: 7_200,
      failure: "rate_limited",
      answered: 0,
    });
  });

  test("an entry that no row can hold doesn't stop the others", async ({ db }) => {
    const [provider, other] = [providerId(), providerId()];
    const failures = 2 ** 31 - 1;
    await report(
      db,
      { provider, model: "m".repeat(513), answered: 0 },
      { provider, failing: 1, failures, cooldown: -1e300 },
      { provider, failing: 1, failures },
      { provider: other, answered: 0 },
    );
    await report(db, { provider, failing: 1, failures });
    expect(await healthOf(db, { provider })).toMatchObject({ failures: 1_000_000 });
    expect((await healthOf(db, { provider: other })).state).toBe("working");
  });

  test.for([
    [3_599.999, "working"],
    [3_600, "quiet"],
  ] as const)("a route that was last called %d s ago is %s", async ([after, state], { db }) => {
    const [answering, failing] = [providerId(), providerId()];
    await report(db, { provider: answering, answered: 0 }, { provider: failing, failing: 0, failures: 3 });
    expect((await healthOf(db, { provider: answering, after })).state).toBe(state);
    expect((await healthOf(db, { provider: failing, after })).state).toBe(state === "quiet" ? state : "failing");
  });

  test("the table accepts every failure that can count against a route", async ({ db }) => {
    const failures = attemptFailures.filter((failure) => failure !== "skipped" && failure !== "cancelled");
    for (const failure of failures) await report(db, { provider: providerId(), failing: 0, failure });
  });

  test("routes that no process has reported for 30 days are deleted", async ({ db }) => {
    const [old, young] = [providerId(), providerId()];
    await report(db, { provider: old, answered: 0 }, { provider: young, answered: 0 });
    const age =
      "update ai.route_health set reported_at = now() - interval '30 days' + $2 * interval '1 ms' where provider_id = $1";
    await db.query(age, [old, -1]);
    await db.query(age, [young, 1]);
    await db.asRole("service_role", () => db.query("select ai.delete_expired(10000)"));
    expect(
      await db.query("select provider_id from ai.route_health where provider_id = any ($1)", [[old, young]]),
    ).toEqual([{ provider_id: young }]);
  });
});
