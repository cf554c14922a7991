import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { createInterface } from "node:readline";
import { z } from "zod";

export type Outcome = { name: string; passed: number; failed: number; seconds: number; budgetSeconds: number };
type Counts = Pick<Outcome, "passed" | "failed">;

const vitestReport = z.object({
  numPassedTests: z.number(),
  numFailedTests: z.number(),
  numPendingTests: z.number(),
  numTodoTests: z.number(),
  success: z.boolean(),
});
const playwrightReport = z.object({
  stats: z.object({ expected: z.number(), unexpected: z.number(), flaky: z.number(), skipped: z.number() }),
});

type RunOptions = {
  env?: NodeJS.ProcessEnv;
  /** Stands before each line, where the command has company. */
  label?: string | undefined;
};

/** Runs a command of `node_modules/.bin` with our output streams. @returns its exit code */
function run(command: string, args: string[], { env = process.env, label }: RunOptions = {}): Promise<number> {
  const child = spawn(command, args, {
    stdio: ["ignore", label ? "pipe" : "inherit", label ? "pipe" : "inherit"],
    env,
  });
  for (const stream of [child.stdout, child.stderr]) {
    if (stream) createInterface({ input: stream }).on("line", (line) => console.log(`${label} │ ${line}`));
  }
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    // Not its streams' end, which whatever it left behind could put off.
    child.once("exit", (code) => resolve(code ?? 1));
  });
}

/** A check that passes or fails as a whole. */
export async function runCheck(command: string, args: string[]): Promise<Counts> {
  return (await run(command, args, { label: command })) === 0 ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
}

/** A Vitest project. A skipped test counts as a failure, and so does a run that fails apart from any test. */
export async function runVitest(
  project: string,
  { reportDir, label }: { reportDir: string; label?: string },
): Promise<Counts> {
  const reportFile = path.join(reportDir, `${project}.json`);
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${reportFile}`];
  const code = await run("vitest", ["run", "--project", project, ...reporters], { label });
  const report = vitestReport.parse(JSON.parse(await readFile(reportFile, "utf8")));
  return {
    passed: report.numPassedTests,
    failed: orOne(report.numFailedTests + report.numPendingTests + report.numTodoTests, code),
  };
}

/** The browser tests. A skipped or flaky test counts as a failure. */
export async function runPlaywright({ reportDir }: { reportDir: string }): Promise<Counts> {
  const reportFile = path.join(reportDir, "browser.json");
  const env = { ...process.env, PLAYWRIGHT_JSON_OUTPUT_NAME: reportFile };
  const code = await run("playwright", ["test", "--reporter=list,json"], { env });
  const { stats } = playwrightReport.parse(JSON.parse(await readFile(reportFile, "utf8")));
  return { passed: stats.expected, failed: orOne(stats.unexpected + stats.flaky + stats.skipped, code) };
}

const soakReport = z.object({ verdicts: z.array(z.object({ ok: z.boolean() })).nonempty() });

/** Two minutes of traffic with faults, and its audit: each check counts as a test. A run that leaves no report, or checks nothing, fails. */
export async function runSoak({ reportDir, label }: { reportDir: string; label?: string }): Promise<Counts> {
  // The same choices each time, so that a failure is that of a change.
  const seed = 1;
  const options = ["--quick", `--seed=${seed}`, `--report=${reportDir}`];
  const code = await run(process.execPath, ["scripts/soak/main.ts", ...options], { label });
  const file = path.join(reportDir, `soak-${seed}.json`);
  const { verdicts } = soakReport.parse(JSON.parse(await readFile(file, "utf8")));
  const passed = verdicts.filter(({ ok }) => ok).length;
  return { passed, failed: orOne(verdicts.length - passed, code) };
}

function orOne(failed: number, exitCode: number): number {
  return failed === 0 && exitCode !== 0 ? 1 : failed;
}
