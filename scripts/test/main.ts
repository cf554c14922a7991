import { mkdir, readFile, rm } from "node:fs/promises";
import path from "node:path";
import type { Result } from "./reports.ts";
import { type Outcome, runCheck, runPlaywright, runSoak, runVitest } from "./runners.ts";
import { startStack } from "./start-stack.ts";

/**
 * `npm test`: runs every tier on one stack, cheapest first. The type check runs concurrently with the other checks and
 * the unit tests. The last two tiers run in parallel, since they mostly wait. `npm run test:stack` tests faults of the
 * local stack itself. All tiers run even if one fails. The output ends with the failures, the tiers and `N passed, N
 * failed`. The exit code is 0 only if something ran and nothing failed. A tier over its time budget is reported but
 * does not fail, since machines are shared. Budgets are for two idle cores.
 */
const reportDir = path.resolve("test-results/reports");
await rm(reportDir, { recursive: true, force: true });
await mkdir(reportDir, { recursive: true });

// A run starts about a hundred processes of the same code. This cache lets a process reuse code that an earlier process
// compiled.
process.env.NODE_COMPILE_CACHE ??= path.resolve("node_modules/.cache/node-compile");

const totalBudgetSeconds = 720;
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

const check = (command: string, args: string[]) => () => runCheck(command, args);
const vitest = (project: string) => () => runVitest(project, { reportDir });

// Neither the stack's start nor the type check uses both cores, so the other checks and the unit tests start
// concurrently.
const [stack] = await Promise.all([
  startStack()
    .catch(failStack)
    .then(async (started) => {
      await tier("lint", { budgetSeconds: 5, run: check("npm", ["run", "-s", "lint"]) });
      await tier("dead code", { budgetSeconds: 10, run: check("knip", ["--no-progress"]) });
      await tier("unit", { budgetSeconds: 60, run: vitest("unit") });
      return started;
    }),
  tier("types", { budgetSeconds: 20, run: check("npm", ["run", "-s", "typecheck"]) }),
]);

if (stack) {
  process.env.GATEHOUSE_STACK = stack.file;
  try {
    await tier("sql", { budgetSeconds: 60, run: vitest("sql") });
    await tier("contract", { budgetSeconds: 60, run: vitest("contract") });
    await tier("integration", { budgetSeconds: 120, run: vitest("integration") });
    await tier("browser", { budgetSeconds: 240, run: () => runPlaywright({ reportDir }) });
    // This is the last tier on the stack, since generated requests leave data behind that could disturb other tests.
    await tier("fuzz", { budgetSeconds: 60, run: vitest("fuzz") });
  } finally {
    await stack.stop().catch(failStack);
  }
}
await Promise.all([
  tier("fault", {
    budgetSeconds: 90,
    run: () => runVitest("fault", { reportDir, label: "fault", files: ["scripts/releases", "supabase/functions"] }),
  }),
  tier("soak", { budgetSeconds: 120, run: () => runSoak({ reportDir, label: "soak" }) }),
]);

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
const { version } = JSON.parse(await readFile("package.json", "utf8")) as { version: string };
const totalSeconds = (performance.now() - started) / 1000;
const total = `${totalSeconds.toFixed(0)} s in all, of ${totalBudgetSeconds} s${totalSeconds > totalBudgetSeconds ? ": over" : ""}`;
console.log(`\nGatehouse ${version}, Node ${process.versions.node}, ${total}\n`);
console.log(`${sum("passed")} passed, ${sum("failed")} failed`);
process.exitCode = sum("failed") === 0 && sum("passed") > 0 ? 0 : 1;
