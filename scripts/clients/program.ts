import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import path from "node:path";
import { type Check, reportedChecks } from "./checks.ts";
import type { Installed } from "./install.ts";

const timeoutMs = 180_000;

/** Runs a client's program. A program that crashes, hangs or reports nothing counts as a failed check. */
export async function runProgram(
  { command, args, cwd }: Installed,
  { model, baseURL, apiKey }: { model: string; baseURL: string; apiKey: string },
): Promise<Check[]> {
  // Some clients keep files in the home directory, and send telemetry unless it is disabled.
  const home = path.resolve(".local/clients/home");
  mkdirSync(home, { recursive: true });
  const child = spawn(command, args, {
    cwd,
    stdio: ["ignore", "pipe", "pipe"],
    timeout: timeoutMs,
    killSignal: "SIGKILL",
    env: {
      NODE_ENV: "production",
      PATH: process.env.PATH,
      HOME: home,
      OPENAI_BASE_URL: baseURL,
      OPENAI_API_KEY: apiKey,
      CLIENT_MODEL: model,
      CREWAI_DISABLE_TELEMETRY: "true",
      OTEL_SDK_DISABLED: "true",
      PYTHONDONTWRITEBYTECODE: "1",
    },
  });
  let output = "";
  let errors = "";
  child.stdout.setEncoding("utf8").on("data", (chunk) => {
    output += chunk;
  });
  child.stderr.setEncoding("utf8").on("data", (chunk) => {
    errors += chunk;
  });
  const ending = await new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(String(error)));
    child.once("close", (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
  const checks = reportedChecks(output);
  if (ending === "exit code 0" && checks.length > 0) return checks;
  return [
    ...checks,
    { name: "the program ends without an error", ok: false, error: `${ending}\n${errors.slice(-2_000)}` },
  ];
}
