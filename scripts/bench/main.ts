import pg from "pg";
import { readStackFile } from "../test/stack.ts";
import { type StartedStack, startStack } from "../test/start-stack.ts";
import { measureGateway } from "./gateway/gateway.ts";
import { gatewayRows } from "./gateway/gateway-rows.ts";
import type { GatewayMeasurements } from "./gateway/measurements.ts";
import { stepsOfRound } from "./gateway/rounds.ts";
import { type Part, planOf, readOptions, usage } from "./options.ts";
import { createProgress, OutOfTime } from "./progress.ts";
import { writeResults } from "./report/files.ts";
import { busyWarning, describeMachine } from "./report/machine.ts";
import type { Row } from "./report/rows.ts";
import { renderTable } from "./report/table.ts";
import { type ReportMeasurements, reportRows } from "./reports/reports.ts";
import { measureWebPages, measureWebReports } from "./web/measure-web.ts";
import { pageRows } from "./web/page-rows.ts";
import type { PageMeasurements } from "./web/pages.ts";

/**
 * `npm run bench`: starts a stack of its own as `npm start` does, measures what is aimed at of speed
 * (docs/performance.md, The bench, in whole), and prints each figure beside its goal. Exit code 0 whatever the figures are: they depend on
 * the machine.
 */
const without = ["provider", "mail", "oidc", "notes"];

const options = readOptionsOrFail();
if (options.help) {
  console.log(usage);
  process.exit(0);
}
const plan = planOf(options);
const stopping = new AbortController();
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(name, () => stopping.abort(new Error(name)));
const { signal } = stopping;
const progress = createProgress({ steps: countSteps(), limitMs: plan.limitMs, signal }, process.stderr);
const machine = describeMachine();
const complaints = busyWarning(machine);
let stack: StartedStack | undefined;
try {
  progress.begin("a stack");
  stack = await startStack({}, { without, signal, durable: true });
  await measure(stack);
} catch (error) {
  progress.end();
  process.exitCode = 1;
  console.error(signal.aborted ? "Stopped." : error);
} finally {
  await stack?.stop();
}

function countSteps(): number {
  const { peers, parts } = options;
  const targets = peers ? 3 : 2;
  const rounds = parts.has("gateway") ? 2 + (peers ? 1 : 0) + targets + plan.rounds * stepsOfRound(plan, targets) : 0;
  return 1 + rounds + (parts.has("reports") ? 3 : 0) + (parts.has("web") ? 1 : 0);
}

async function measure({ file }: StartedStack): Promise<void> {
  const running = readStackFile(file);
  const client = new pg.Client({ connectionString: running.supabase.dbUrl });
  // Where it breaks, whoever asks next hears of it.
  client.on("error", () => undefined);
  await client.connect();
  // With what built it, which is a quarter of its CPU time.
  const { rows: servers } = await client.query<{ version: string }>("select version()");
  machine.versions.postgres = servers[0]?.version.replace(/^PostgreSQL /, "") ?? "";
  const given = { stack: running, stackFile: file, client, plan, progress, signal };
  let pages: PageMeasurements | undefined;
  let gateway: GatewayMeasurements | undefined;
  let reports: ReportMeasurements | undefined;
  try {
    pages = await inTime("web", () => measureWebPages(given));
    gateway = await inTime("gateway", () => measureGateway({ ...given, peers: options.peers, complain }));
    reports = await inTime("reports", () => measureWebReports(given));
  } finally {
    await client.end().catch(() => undefined);
  }
  const rows: Row[] = [
    ...(gateway ? gatewayRows(gateway, plan) : []),
    ...(reports ? reportRows(reports) : []),
    ...(pages ? pageRows(pages) : []),
  ];
  progress.end();
  console.log(`\n${renderTable(rows, process.stdout)}\n`);
  for (const complaint of complaints) console.log(complaint);
  const files = await writeResults({ machine, options, plan, complaints, rows, gateway, reports, pages });
  console.log(`\n${files.join("\n")}`);
}

function complain(text: string): void {
  complaints.push(text);
}

/** Runs a part that is asked for, as long as there is time for it. */
async function inTime<T>(part: Part, run: () => Promise<T>): Promise<T | undefined> {
  if (!options.parts.has(part)) return undefined;
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof OutOfTime)) throw error;
    complain(error.message);
    return undefined;
  }
}

function readOptionsOrFail() {
  try {
    return readOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n\n${usage}`);
    return process.exit(2);
  }
}
