import { readFileSync } from "node:fs";
import pg from "pg";
import { z } from "zod";
import { spread } from "../bench/statistics.ts";
import { readArguments } from "../help.ts";
import { loadRuns } from "./load-runs.ts";
import { createLoadTenant, type LoadTenant } from "./load-tenant.ts";
import { createProgress } from "./progress.ts";

const usage = `npm run bench -- seed [--runs 100000] [--days 365]

Fills the running local stack with a workspace of this many runs, computes daily totals, and times the queries that read
them.`;
const measurements = 7;

const { values } = readArguments(usage, { options: { runs: { type: "string" }, days: { type: "string" } } });
const asked = z
  .object({
    runs: z.coerce.number().int().min(1).max(100_000_000).default(100_000),
    days: z.coerce.number().int().min(1).max(3_650).default(365),
  })
  .safeParse(values);
if (!asked.success) fail(z.prettifyError(asked.error));
const stack = readStack();
const client = new pg.Client({ connectionString: stack.supabase.dbUrl });
try {
  await client.connect();
  await seed(asked.data);
} catch (error) {
  fail(error instanceof Error ? error.message : String(error));
} finally {
  await client.end();
}

async function seed({ runs, days }: { runs: number; days: number }): Promise<void> {
  const tenant = await createLoadTenant(client);
  const onRuns = createProgress({ label: "runs", total: runs }, process.stderr);
  const onDays = createProgress({ label: "days summed", total: days }, process.stderr);
  await loadRuns(client, { tenant, runs, days, onRuns, onDays });
  console.log(`Workspace ${tenant.workspaceId}, app ${tenant.appId}, key ${tenant.key}`);
  await measure(tenant);
}

/** Times the app's report over HTTP, and the studio's reads in the database. */
async function measure({ workspaceId, ownerId, key }: LoadTenant): Promise<void> {
  const headers = { authorization: `Bearer ${key}`, "x-platform-workspace-id": workspaceId };
  await time("GET /v1/usage, 365 days", async () => {
    const response = await fetch(`${stack.ai}/v1/usage`, { headers });
    const { rows } = (await response.json()) as { rows: { requests: number }[] };
    const requests = rows.reduce((sum, row) => sum + row.requests, 0);
    return `${response.status}, ${rows.length.toLocaleString("en")} rows of ${requests.toLocaleString("en")} runs`;
  });
  const year = "now() - 365 * interval '24 hours', now()";
  const yearBefore = "now() - 730 * interval '24 hours', now() - 365 * interval '24 hours'";
  for (const by of ["day", "model", "key"]) {
    await time(`studio overview by ${by}, 365 days`, async () => {
      await client.query(`select ai.read_overview($1, $2, ${year}, ${yearBefore}, $3, 7)`, [ownerId, workspaceId, by]);
      return "the whole page";
    });
  }
  await time("usage by day for members, 365 days", async () => {
    await client.query(`select ai.read_usage($1, $2, ${year}, '{day}', null, 100)`, [ownerId, workspaceId]);
    return "one page";
  });
  await time("reconciliation, 365 days", async () => {
    await client.query(`select ai.reconcile_costs($1, $2, ${year})`, [ownerId, workspaceId]);
    return "one page";
  });
}

async function time(name: string, work: () => Promise<string>): Promise<void> {
  const took: number[] = [];
  let said = "";
  for (let n = 0; n < measurements; n++) {
    const startedAt = performance.now();
    said = await work();
    took.push(performance.now() - startedAt);
  }
  console.log(`${name}: ${spread(took, 0)} ms (${said})`);
}

function readStack() {
  const { GATEHOUSE_STACK = ".local/stack.json" } = process.env;
  try {
    return z
      .object({ ai: z.url(), supabase: z.object({ dbUrl: z.string() }) })
      .parse(JSON.parse(readFileSync(GATEHOUSE_STACK, "utf8")));
  } catch {
    return fail("No local stack is running: start it with npm start.");
  }
}

function fail(message: string): never {
  console.error(message);
  process.exit(1);
}
