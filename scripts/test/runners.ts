import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { createInterface } from "node:readline";
import { playwrightResult, type Result, soakResult, vitestResult } from "./reports.ts";

export type Outcome = Result & { name: string; seconds: number; budgetSeconds: number };

type RunOptions = {
  env?: NodeJS.ProcessEnv;
  /** Prefix of each line if other commands run concurrently. */
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
    // Waits for "exit" and not for "close", since a remaining child process could keep the streams open.
    child.once("exit", (code) => resolve(code ?? 1));
  });
}

/** Runs a check that passes or fails as a whole. */
export async function runCheck(command: string, args: string[]): Promise<Result> {
  const code = await run(command, args, { label: command });
  return code === 0 ? { passed: 1, failed: 0, failures: [] } : { passed: 0, ...failedApart(code) };
}

/**
 * Runs a tier of Vitest: the projects whose names begin with its name. `files` limits the run to some paths, `excluded`
 * leaves test files out, and `withoutTag` skips the tests with a tag. A run that fails although no test failed counts as a failure, too.
 */
export async function runVitest(
  project: string,
  options: { reportDir: string; files?: string[]; excluded?: readonly string[]; withoutTag?: string },
): Promise<Result> {
  const { reportDir, files = [], excluded = [], withoutTag } = options;
  const reportFile = path.join(reportDir, `${project}.json`);
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${reportFile}`];
  const selection = withoutTag === undefined ? files : [...files, `--tagsFilter=!${withoutTag}`];
  // The projects of vitest.config.ts read this variable, since Vitest's own option --exclude does not reach them.
  const env = { ...process.env, EXCLUDED_TESTS: excluded.join("\n") };
  const code = await run("vitest", ["run", "--project", `${project}*`, ...reporters, ...selection], { env });
  return orFailed(vitestResult(await readJson(reportFile), withoutTag), code);
}

/** Runs the browser tests in Chromium or Firefox. */
export async function runPlaywright(options: { reportDir: string; browser: "chromium" | "firefox" }): Promise<Result> {
  const { reportDir, browser } = options;
  const reportFile = path.join(reportDir, `${browser}.json`);
  const env = { ...process.env, TEST_BROWSER: browser, PLAYWRIGHT_JSON_OUTPUT_NAME: reportFile };
  const code = await run("playwright", ["test", "--reporter=list,json"], { env });
  return orFailed(playwrightResult(await readJson(reportFile)), code);
}

/** Runs two minutes of traffic with faults, and then the audit. A run without a report or without checks fails. */
export async function runSoak({ reportDir }: { reportDir: string }): Promise<Result> {
  // Every run has the same seed, so that a new failure is due to a change of the code.
  const seed = 1;
  const options = ["--quick", `--seed=${seed}`, `--report=${reportDir}`];
  const code = await run(process.execPath, ["scripts/soak/main.ts", ...options]);
  return orFailed(soakResult(await readJson(path.join(reportDir, `soak-${seed}.json`))), code);
}

async function readJson(file: string): Promise<unknown> {
  return JSON.parse(await readFile(file, "utf8"));
}

/** Counts a command with a non-zero exit code as failed, regardless of its report. */
function orFailed(result: Result, exitCode: number): Result {
  return result.failed > 0 || exitCode === 0 ? result : { ...result, ...failedApart(exitCode) };
}

function failedApart(exitCode: number): Pick<Result, "failed" | "failures"> {
  return { failed: 1, failures: [`apart from any test\n  exit code ${exitCode}: see above`] };
}
