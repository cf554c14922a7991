import { withDatabase } from "@gatehousehq/local-stack/database";
import pg from "pg";
import { readStackFile } from "../test/stack.ts";
import { type StartedStack, startStack, superuserUrl } from "../test/start-stack.ts";
import { againstTables } from "./against/against-tables.ts";
import { countAgainstSteps, measureAgainst } from "./against/measure-against.ts";
import { bursts, measureBodies } from "./bodies/measure-bodies.ts";
import { databasePreparation } from "./gateway/database-state.ts";
import { measureGateway } from "./gateway/gateway.ts";
import { gatewayRows, targetTable } from "./gateway/gateway-rows.ts";
import { countSteps } from "./gateway/rounds.ts";
import { busyDayTable, measureBusyDay } from "./growth/busy-day.ts";
import { growthTable } from "./growth/growth.ts";
import { type KeptGrowth, openGrowth, reopenGrowth } from "./growth/kept-growth.ts";
import { measureOneWorkspace } from "./growth/one-workspace.ts";
import { explainFrequentStatements } from "./growth/plans.ts";
import { type Part, planOf, readOptions, usage } from "./options.ts";
import { countOverspendSteps, measureOverspend } from "./overspend/measure-overspend.ts";
import { createProgress } from "./progress.ts";
import { writeDocument, writeResults } from "./report/files.ts";
import { busyWarning, describeMachine, machineText } from "./report/machine.ts";
import { goalTable } from "./report/tables.ts";
import { reportRows } from "./reports/reports.ts";
import { measureSlowCommits, slowCommitCases } from "./slow-commits/measure-slow-commits.ts";
import { measureWebGrowth, measureWebPages, measureWebReports } from "./web/measure-web.ts";
import { pageRows } from "./web/page-rows.ts";

/**
 * `npm run bench`: starts its own stack as `npm start` does, measures, and prints each figure with its goal
 * (docs/capacity.md). Exits with 0 even if goals are missed, since figures depend on the machine.
 */
const without = ["provider", "mail", "oidc", "notes"];
/**
 * The services to leave out for `growth`, `plans`, `calls` and `slow-commits`. The stack's own provider stays, because
 * their chat calls need it.
 */
const withoutAlone = ["mail", "oidc", "notes"];

const options = readOptionsOrFail();
if (options.help) {
  console.log(usage);
  process.exit(0);
}
const plan = planOf(options);
const stopping = new AbortController();
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(name, () => stopping.abort(new Error(name)));
const { signal } = stopping;
const progress = createProgress({ steps: allSteps(), signal }, process.stderr);
const machine = describeMachine();
const complaints = busyWarning(machine);
if (options.quick) complaints.push("A quick run: its figures are not judged.");
let stack: StartedStack | undefined;
try {
  progress.begin("a stack");
  const kept = await openKept();
  const { dataDir } = kept ?? {};
  const alone = kept || options.parts.has("calls") || options.parts.has("slow-commits");
  stack = await startStack({}, { without: alone ? withoutAlone : without, signal, durable: true, dataDir });
  await measure(stack, kept);
} catch (error) {
  progress.end();
  process.exitCode = 1;
  console.error(signal.aborted ? "Stopped." : error);
} finally {
  await stack?.stop();
}

/** Opens the database that the parts `growth` and `plans` share. */
async function openKept(): Promise<KeptGrowth | undefined> {
  if (options.parts.has("plans") || (options.parts.has("growth") && options.largest)) return reopenGrowth();
  return options.parts.has("growth") ? openGrowth(plan.growth) : undefined;
}

function allSteps(): number {
  const { peers, parts } = options;
  if (options.against) return 1 + countAgainstSteps(plan, comparison());
  const targets = peers ? 5 : 3;
  const gateway = parts.has("gateway") ? targets + 1 + countSteps(plan, { targets, litellm: peers }) : 0;
  const growth = parts.has("growth") ? 3 * plan.growth.length + 1 : 0;
  const alone =
    (parts.has("calls") ? 3 : 0) +
    (parts.has("plans") ? 1 : 0) +
    (parts.has("bodies") ? bursts.length : 0) +
    (parts.has("overspend") ? countOverspendSteps({ peers }) : 0) +
    (parts.has("slow-commits") ? slowCommitCases(options).length : 0);
  return 1 + gateway + growth + alone + (parts.has("reports") ? 3 : 0) + (parts.has("web") ? 1 : 0);
}

/** What is compared with another commit. */
function comparison(): { part: "gateway" | "web"; peers: boolean } {
  return { part: options.parts.has("web") ? "web" : "gateway", peers: options.peers };
}

/** Runs the benchmark parts that report text instead of figures to compare with a bound. */
async function measureTexts(given: Parameters<typeof measureOneWorkspace>[0], stackFile: string): Promise<string[]> {
  const texts: string[] = [];
  if (options.parts.has("calls")) texts.push(await measureOneWorkspace(given));
  if (options.parts.has("bodies")) texts.push(await measureBodies(given));
  if (options.parts.has("slow-commits")) {
    texts.push(await measureSlowCommits({ ...given, stackFile, cases: slowCommitCases(options) }));
  }
  if (options.parts.has("overspend")) {
    const { calls } = plan.overspend;
    texts.push(await measureOverspend({ ...given, stackFile, calls, peers: options.peers }));
  }
  if (options.parts.has("plans")) {
    progress.begin("plans");
    texts.push(await withDatabase(await superuserUrl(stackFile), explainFrequentStatements));
  }
  return texts;
}

async function measure({ file }: StartedStack, kept: KeptGrowth | undefined): Promise<void> {
  const running = readStackFile(file);
  const client = new pg.Client({ connectionString: running.supabase.dbUrl });
  // The next query reports a lost connection.
  client.on("error", () => undefined);
  await client.connect();
  const { rows: servers } = await client.query<{ version: string }>("select version()");
  machine.versions.postgres = servers[0]?.version.replace(/^PostgreSQL /, "") ?? "";
  const given = { stack: running, stackFile: file, client, plan, progress, signal };
  const complain = (text: string) => complaints.push(text);
  const run = <T>(part: Part, work: () => Promise<T>) => (options.parts.has(part) ? work() : undefined);
  try {
    const { against: commit, peers } = options;
    const pages = commit ? undefined : await run("web", () => measureWebPages(given));
    const against = commit
      ? await measureAgainst({ ...given, ...comparison(), without, against: commit, complain })
      : undefined;
    const gateway = commit ? undefined : await run("gateway", () => measureGateway({ ...given, peers, complain }));
    const reports = await run("reports", () => measureWebReports(given));
    const growth = kept && (await run("growth", () => measureWebGrowth({ ...given, kept })));
    const busyDay = await run("growth", () => {
      progress.begin("busy day");
      return measureBusyDay({ client, runs: plan.busyDay, show: progress.show, signal });
    });
    const texts = await measureTexts(given, file);
    progress.end();
    const rows = [
      ...(gateway ? gatewayRows(gateway) : []),
      ...(reports ? reportRows(reports) : []),
      ...(pages ? pageRows(pages) : []),
    ];
    const tables = [
      [
        machineText(machine),
        ...(gateway || against?.part === "gateway" ? [databasePreparation] : []),
        ...complaints,
      ].join(" "),
      ...(growth ? [growthTable(growth)] : []),
      ...(busyDay ? [busyDayTable(busyDay)] : []),
      ...texts,
      ...(rows.length > 0 ? [goalTable(rows, { judged: !options.quick })] : []),
      ...(against ? [againstTables(against, plan)] : []),
      ...(gateway ? [targetTable(gateway, plan.openLoop)] : []),
    ].join("\n\n");
    console.log(`\n${tables}\n`);
    for (const { what, note } of rows) if (note) console.log(`${what}: ${note}`);
    const results = { machine, options, plan, complaints, rows, gateway, against, reports, pages, growth, busyDay };
    console.log(`\n${await writeResults(results)}`);
    if (options.write) await writeDocument(options.write, tables);
  } finally {
    await client.end().catch(() => undefined);
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
