import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import { begin, chatCall, createTenant, outcome, settle } from "../gateway/fixtures.ts";
import { rollUp, setMarkBack } from "../usage/usage-sums.ts";

async function answerOf<Answer>(db: Database, { sql, values = [] }: { sql: string; values?: unknown[] }) {
  return db.asRole(
    "service_role",
    async () => (await one<{ answer: Answer }>(db, { sql: `select private.${sql} as answer`, values })).answer,
  );
}

type Usage = { provider: string; billingName: string | null; billingAccount: string | null; costUsd: string };

/** Returns provider usage, computed from the runs themselves. */
async function usageOfRuns(db: Database, days: [string, string]): Promise<object[]> {
  const rows = await db.query<{ row: object }>(
    `select jsonb_build_object(
       'provider', ai.run_provider(routes, route), 'billingName', billing_name, 'billingAccount', billing_account,
       'requests', count(*), 'failed', count(*) filter (where status = 'failed'), 'inputTokens', sum(input_tokens),
       'outputTokens', sum(output_tokens), 'costUsd', trim_scale(sum(cost_usd))::text
     ) as row
     from ai.runs
     where (created_at at time zone 'UTC')::date between $1 and $2
     group by ai.run_provider(routes, route), billing_name, billing_account
     order by sum(cost_usd) desc, 1`,
    days,
  );
  return rows.map(({ row }) => row);
}

const byName = (rows: readonly object[]) => rows.map((row) => JSON.stringify(Object.entries(row).sort())).sort();

const dayBefore = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);

describe("provider usage", () => {
  test("provider usage is the sum of all runs, whether their day is summarized, has changed since, or is not over yet", async ({
    db,
  }) => {
    const tenants = [await createTenant(db, { credits: "1000" }), await createTenant(db, { credits: "1000" })];
    for (const tenant of tenants) {
      for (let age = 0; age < 4; age += 1) {
        const run = await begin(db, chatCall(tenant));
        const bill = age % 2 ? { billing_name: "acme", billing_account: `account-${age}` } : {};
        await settle(db, [outcome(run, { input_tokens: 11 + age, output_tokens: 7, ...bill })]);
        await db.query("update ai.runs set created_at = created_at - $2 * interval '1 day' where id = $1", [
          run.run_id,
          age,
        ]);
      }
    }
    const usage = (from: number, to: number) =>
      answerOf<Usage[]>(db, { sql: "list_provider_usage($1, $2)", values: [dayBefore(from), dayBefore(to)] });
    const checkAll = async () => {
      for (const [from, to] of [
        [3, 0],
        [3, 1],
        [1, 1],
        [0, 0],
      ] as const) {
        const days: [string, string] = [dayBefore(from), dayBefore(to)];
        let rows: Usage[];
        let runs: object[];
        // Other tests change runs of all days, so both are read until no run has changed between the reads.
        do {
          runs = await usageOfRuns(db, days);
          rows = await usage(from, to);
        } while (JSON.stringify(runs) !== JSON.stringify(await usageOfRuns(db, days)));
        expect(rows.length).toBeGreaterThan(0);
        expect(byName(rows)).toEqual(byName(runs));
      }
    };
    // Checks the usage before any day is summarized, after all days but the last are summarized, and after a summarized
    // day changes.
    await setMarkBack(db, 3);
    await checkAll();
    await rollUp(db);
    await checkAll();
    await db.query(
      "update ai.runs set output_tokens = output_tokens + 5, cost_usd = cost_usd + 0.000000000001 where workspace_id = $1 and created_at < $2",
      [tenants[0]?.workspaceId, dayBefore(0)],
    );
    await checkAll();
    const accounts = (await usage(3, 3)).map(({ billingName, billingAccount }) => [billingName, billingAccount]);
    expect(accounts).toContainEqual(["acme", "account-3"]);
  });
});

describe("provider health", () => {
  test("provider health counts answers of the last hour, and failures of the last 24 hours by class", async ({
    db,
  }) => {
    const provider = `provider_${randomUUID().slice(0, 8)}`;
    const tenant = await createTenant(db, { credits: "1000" });
    const attempt = { route: 1, provider, model: "upstream", latency_ms: 3 };
    const failed = [
      { ...attempt, failure: "unauthorized", status: 401 },
      { ...attempt, failure: "timeout" },
      { ...attempt, failure: "skipped" },
    ];
    const run = await begin(db, chatCall(tenant));
    await settle(db, [outcome(run, { attempts: [...failed, { ...attempt, status: 200 }] })]);
    await db.query("update ai.model_routes set provider_id = $2 where model_id = $1", [tenant.model, provider]);
    await db.query("update ai.runs set routes = jsonb_set(routes, '{0,provider}', to_jsonb($2::text)) where id = $1", [
      run.run_id,
      provider,
    ]);
    await db.query(
      `insert into ai.failed_attempts (at, run_created_at, run_id, request_id, workspace_id, model_id, provider_id, provider_model,
         route, failure)
       select now() - age, now(), $1, 'r', $2, 'm', $3, 'u', 1, 'timeout'
       from unnest(array[interval '2 hours', interval '23 hours 59 minutes', interval '24 hours']) as age`,
      [run.run_id, tenant.workspaceId, provider],
    );
    const health = await answerOf<{ provider: string }[]>(db, { sql: "list_provider_health()" });
    expect(health.find((one) => one.provider === provider)).toMatchObject({
      routes: 1,
      answeredLastHour: 1,
      failedLastHour: 2,
      failures: [
        { failure: "timeout", failed: 3 },
        { failure: "unauthorized", failed: 1 },
      ],
    });
    await db.query("update ai.runs set created_at = created_at - interval '1 hour' where id = $1", [run.run_id]);
    const later = await answerOf<{ provider: string }[]>(db, { sql: "list_provider_health()" });
    expect(later.find((one) => one.provider === provider)).toMatchObject({ answeredLastHour: 0, lastAnswerAt: null });
  });

  test("provider health counts the routes that runs of the last 15 minutes skipped", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const skipped = { route: 1, provider: "resting", model: "upstream", failure: "skipped", latency_ms: 0 };
    const ids: string[] = [];
    for (let made = 0; made < 2; made += 1) {
      const run = await begin(db, chatCall(tenant));
      await settle(db, [
        outcome(run, { attempts: [skipped, { ...skipped, route: 2, provider: "demo", failure: undefined }] }),
      ]);
      ids.push(run.run_id);
    }
    const routes = async () =>
      (await answerOf<{ model: string }[]>(db, { sql: "list_skipped_routes()" })).filter(
        ({ model }) => model === tenant.model,
      );
    expect(await routes()).toMatchObject([{ provider: "resting", providerModel: "upstream", skipped: 2 }]);
    const age = "update ai.runs set created_at = now() - $2 * interval '1 second' where id = $1";
    await db.query(age, [ids[0], 15 * 60 - 1]);
    await db.query(age, [ids[1], 15 * 60]);
    expect(await routes()).toMatchObject([{ skipped: 1 }]);
  });
});
