import { mkdir, readFile, rm } from "node:fs/promises";
import path from "node:path";
import { parseArgs } from "node:util";
import { findFirefox } from "../../e2e/firefox.ts";
import { listFiles } from "../hash-files.ts";
import {
  findChanged,
  hashParts,
  type Part,
  parts,
  readVerified,
  testsOf,
  tierTests,
  verifiedAfter,
  writeVerified,
} from "./parts.ts";
import type { Result } from "./reports.ts";
import { type Outcome, runCheck, runPlaywright, runSoak, runVitest } from "./runners.ts";
import { startStack } from "./start-stack.ts";

/**
 * `npm test`: runs the product's tests on one stack, cheapest tier first, and the tests of each part of the repository
 * that has changed since it was verified (`parts.ts`). `-- --all` runs the tests of all parts, and records the hashes
 * of those that pass in `verified.json`. The type check runs concurrently with the other checks and the unit tests. All
 * tiers run even if one fails. The output ends with the failures, the tiers and `N passed, N failed`. The exit code is
 * 0 only if something ran and nothing failed. A tier over its time budget is reported but does not fail, since machines
 * are shared. Budgets are for two idle cores.
 */
const { values: options } = parseArgs({ options: { all: { type: "boolean", default: false } } });
const hashes = await hashParts();
const chosen = options.all ? parts : findChanged(hashes, await readVerified());
const excluded = parts.filter((part) => !chosen.includes(part)).flatMap(testsOf);
const names = chosen.map(({ name }) => name).join(", ");
if (options.all) console.log("Runs the tests of the product and of every part.");
else console.log(names ? `Parts that changed since npm test -- --all: ${names}` : "No part needs its tests.");

const reportDir = path.resolve("test-results/reports");
await rm(reportDir, { recursive: true, force: true });
await mkdir(reportDir, { recursive: true });

// A run starts about a hundred processes of the same code. This cache lets a process reuse code that an earlier process
// compiled.
process.env.NODE_COMPILE_CACHE ??= path.resolve("node_modules/.cache/node-compile");

const hasFirefox = options.all && findFirefox() !== null;
const firefoxBudgetSeconds = 420;
const totalBudgetSeconds = (chosen.length === 0 ? 420 : 1_500) + (hasFirefox ? firefoxBudgetSeconds : 0);
const outcomes: Outcome[] = [];
const started = performance.now();

async function tier(
  name: string,
  { budgetSeconds, run }: { budgetSeconds: number; run: () => Promise<Result> },
): Promise<void> {
  const begin = performance.now();
  process.stdout.write(`\n── ${name}\n`);
  const result = await run().catch((error: unknown) => {
    console.error(error);
    return { passed: 0, failed: 1, failures: [String(error)] };
  });
  outcomes.push({ name, ...result, seconds: (performance.now() - begin) / 1000, budgetSeconds });
}

/** Records a failure to start or stop the stack as a separate failure. Tiers that don't need the stack still run. */
function failStack(error: unknown): undefined {
  console.error(error);
  outcomes.push({ name: "stack", passed: 0, failed: 1, failures: [String(error)], seconds: 0, budgetSeconds: 0 });
}

/** Prints which requests the stack's web server could not answer, so that a failure on another machine can be explained. */
async function printServerErrors(stackFile: string): Promise<void> {
  const log = await readFile(path.join(path.dirname(stackFile), "logs/web.log"), "utf8").catch(() => "");
  const lines = log.split("\n").filter((line) => /\berror\b|status=50[03]/.test(line));
  if (lines.length > 0) console.log(`\n── errors of the web server\n${lines.slice(-60).join("\n")}`);
}

const check = (command: string, args: string[]) => () => runCheck(command, args);

/** Runs the tests of a tier, unless all of them are excluded. */
async function vitest(name: keyof typeof tierTests | "unit", budgetSeconds: number): Promise<void> {
  const isEmpty = name !== "unit" && listFiles(".", [tierTests[name]]).every((file) => excluded.includes(file));
  if (!isEmpty) await tier(name, { budgetSeconds, run: () => runVitest(name, { reportDir, excluded }) });
}

/** Runs a tier that is a command, if its part is chosen. */
async function command(
  name: NonNullable<Part["command"]>,
  { budgetSeconds, run }: { budgetSeconds: number; run: () => Promise<Result> },
): Promise<void> {
  if (chosen.some((part) => part.command === name)) await tier(name, { budgetSeconds, run });
}

/** Runs tests again on hosted Supabase's Deno. Their files count as passed only in their own tier. */
async function runHosted(): Promise<Result> {
  return { ...(await runVitest("hosted", { reportDir })), passedFiles: [] };
}

// Neither the stack's start nor the type check uses both cores, so the other checks and the unit tests start
// concurrently.
const [stack] = await Promise.all([
  startStack()
    .catch(failStack)
    .then(async (started) => {
      await tier("lint", { budgetSeconds: 5, run: check("npm", ["run", "-s", "lint"]) });
      await tier("dead code", { budgetSeconds: 10, run: check("knip", ["--no-progress"]) });
      await vitest("unit", 60);
      return started;
    }),
  tier("types", { budgetSeconds: 20, run: check("npm", ["run", "-s", "typecheck"]) }),
]);

if (stack) {
  process.env.GATEHOUSE_STACK = stack.file;
  try {
    await vitest("sql", 60);
    await vitest("contract", 60);
    await vitest("integration", 120);
    await tier("browser", { budgetSeconds: 150, run: () => runPlaywright({ reportDir, browser: "chromium" }) });
    if (hasFirefox) {
      const run = () => runPlaywright({ reportDir, browser: "firefox" });
      await tier("firefox", { budgetSeconds: firefoxBudgetSeconds, run });
    } else if (options.all) {
      console.log("\nWarning: no Firefox is installed, so the browser tests run only in Chromium.");
    }
    await vitest("sdks", 30);
    await command("hosted", { budgetSeconds: 60, run: runHosted });
    await command("gallery", { budgetSeconds: 480, run: check("npm", ["run", "-s", "gallery", "--", "--check"]) });
    // This is the last tier on the stack, since generated requests leave data behind that could disturb other tests.
    await vitest("fuzz", 60);
  } finally {
    delete process.env.GATEHOUSE_STACK;
    if (outcomes.some(({ failed }) => failed > 0)) await printServerErrors(stack.file);
    await stack.stop().catch(failStack);
  }
}
await vitest("fault", chosen.length === 0 ? 40 : 240);
await command("soak", { budgetSeconds: 120, run: () => runSoak({ reportDir }) });

const passedNames = outcomes.flatMap(({ name, passed, failed, passedFiles = [] }) =>
  failed === 0 && passed > 0 ? [name, ...passedFiles] : passedFiles,
);
const verified = verifiedAfter(hashes, new Set(passedNames));
if (options.all) await writeVerified(verified);

const sum = (key: "passed" | "failed") => outcomes.reduce((total, outcome) => total + outcome[key], 0);
for (const { name, failures } of outcomes) {
  for (const failure of failures) console.log(`\n── failed in ${name}: ${failure}`);
}
console.log(`\n${"tier".padEnd(14)}passed  failed  seconds  budget`);
for (const { name, passed, failed, seconds, budgetSeconds } of outcomes) {
  const figures = [
    String(passed).padStart(6),
    String(failed).padStart(8),
    seconds.toFixed(1).padStart(9),
    String(budgetSeconds).padStart(8),
  ];
  console.log(`${name.padEnd(14)}${figures.join("")}${seconds > budgetSeconds ? "  over" : ""}`);
}
const failedParts = chosen.filter(({ name }) => !(name in verified)).map(({ name }) => name);
if (failedParts.length > 0) console.log(`\nParts that are not verified: ${failedParts.join(", ")}`);
const { version } = JSON.parse(await readFile("package.json", "utf8")) as { version: string };
const totalSeconds = (performance.now() - started) / 1000;
const total = `${totalSeconds.toFixed(0)} s in all, of ${totalBudgetSeconds} s${totalSeconds > totalBudgetSeconds ? ": over" : ""}`;
console.log(`\nGatehouse ${version}, Node ${process.versions.node}, ${total}\n`);
console.log(`${sum("passed")} passed, ${sum("failed")} failed`);
process.exitCode = sum("failed") === 0 && sum("passed") > 0 ? 0 : 1;
