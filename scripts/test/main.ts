import { mkdir, readFile, rm } from "node:fs/promises";
import path from "node:path";
import { type Outcome, runCheck, runPlaywright, runSoak, runVitest } from "./runners.ts";
import { startStack } from "./start-stack.ts";

/**
 * `npm test`: every tier in order, cheapest first, on one stack of its own. All tiers run even when one fails,
 * so that one run tells all. Closes with `N passed, N failed`; exit code 1 unless nothing failed and something ran.
 */
const reportDir = path.resolve("test-results/reports");
await rm(reportDir, { recursive: true, force: true });
await mkdir(reportDir, { recursive: true });

const outcomes: Outcome[] = [];
const started = performance.now();

async function tier(name: string, run: () => Promise<Omit<Outcome, "name" | "seconds">>): Promise<void> {
  const begin = performance.now();
  process.stdout.write(`\n── ${name}\n`);
  const counts = await run().catch((error: unknown) => {
    console.error(error);
    return { passed: 0, failed: 1 };
  });
  outcomes.push({ name, ...counts, seconds: (performance.now() - begin) / 1000 });
}

const vitest = (project: string) => () => runVitest(project, path.join(reportDir, `${project}.json`));

await tier("types", () => runCheck("tsc", ["--noEmit"]));
await tier("lint", () => runCheck("biome", ["ci", "--error-on-warnings", "."]));
await tier("dead code", () => runCheck("knip", ["--no-progress"]));
await tier("unit", vitest("unit"));

const stack = await startStack().catch((error: unknown) => {
  console.error(error);
  outcomes.push({ name: "stack", passed: 0, failed: 1, seconds: 0 });
  return undefined;
});
if (stack) {
  process.env.GATEHOUSE_STACK = stack.file;
  try {
    await tier("sql", vitest("sql"));
    await tier("contract", vitest("contract"));
    await tier("integration", vitest("integration"));
    await tier("browser", () => runPlaywright(path.join(reportDir, "browser.json")));
  } finally {
    await stack.stop();
  }
}
await tier("fault", vitest("fault"));
await tier("soak", () => runSoak(reportDir));

const sum = (key: "passed" | "failed") => outcomes.reduce((total, outcome) => total + outcome[key], 0);
console.log(`\n${"tier".padEnd(14)}passed  failed  seconds`);
for (const { name, passed, failed, seconds } of outcomes) {
  console.log(
    `${name.padEnd(14)}${String(passed).padStart(6)}${String(failed).padStart(8)}${seconds.toFixed(1).padStart(9)}`,
  );
}
const { version } = JSON.parse(await readFile("package.json", "utf8")) as { version: string };
console.log(
  `\nGatehouse ${version}, Node ${process.versions.node}, ${((performance.now() - started) / 1000).toFixed(0)} s in all\n`,
);
console.log(`${sum("passed")} passed, ${sum("failed")} failed`);
process.exitCode = sum("failed") === 0 && sum("passed") > 0 ? 0 : 1;
