import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type Block, readBlocks } from "../docs/blocks.ts";
import { readDocument } from "../docs/documents.ts";
import { type Check, reportedChecks } from "./checks.ts";
import type { Client } from "./clients.ts";
import type { Installed } from "./install.ts";

const timeoutMs = 300_000;

type Gateway = { baseURL: string; apiKey: string };

/** Runs a client's program. A program that crashes, hangs or reports nothing counts as a failed check. */
export async function runProgram(
  installed: Installed,
  { model, baseURL, apiKey }: Gateway & { model: string },
): Promise<Check[]> {
  const env = { OPENAI_BASE_URL: baseURL, OPENAI_API_KEY: apiKey, CLIENT_MODEL: model };
  const { output, fault } = await runProcess(installed, env);
  const checks = reportedChecks(output);
  if (!fault && checks.length > 0) return checks;
  return [...checks, { name: "the program ends without an error", ok: false, error: fault ?? "It reported nothing." }];
}

/** Runs the client's snippet from docs/clients.md, if it has one. */
export async function runSnippet(
  { snippet, lacks = [] }: Client,
  { installed, baseURL, apiKey }: Gateway & { installed: Installed },
): Promise<Check[]> {
  const block = clientSnippets().find(({ text }) => snippet && text.includes(snippet));
  if (!block) return [];
  const file = path.join(installed.cwd, `snippet.${block.language}`);
  writeFileSync(file, block.text);
  const command = block.language === "sh" ? "bash" : installed.command;
  const env = { AI: baseURL.replace(/\/v1$/, ""), KEY: apiKey };
  const { output, fault } = await runProcess({ ...installed, command, args: [file] }, env);
  const ok = !fault && output.includes("Hello");
  const feature = lacks.includes("plain") ? "stream" : "plain";
  return [{ name: "its snippet in docs/clients.md", feature, ok, error: fault ?? `It printed “${output}”.` }];
}

/** Returns the blocks of docs/clients.md whose client is not installed with the project. */
export function clientSnippets(): Block[] {
  const { blocks } = readBlocks("docs/clients.md", readDocument("docs/clients.md"));
  return blocks.filter(({ language, need }) => language === "python" || need === "client");
}

async function runProcess(
  { command, args, cwd }: Installed,
  settings: Record<string, string>,
): Promise<{ output: string; fault: string | undefined }> {
  // Some clients write files to the home directory, and send telemetry unless it is disabled.
  const home = path.resolve(".local/clients/home");
  mkdirSync(home, { recursive: true });
  const child = spawn(command, args, {
    cwd,
    stdio: ["ignore", "pipe", "pipe"],
    timeout: timeoutMs,
    killSignal: "SIGKILL",
    env: {
      NODE_ENV: "production",
      PATH: [path.join(cwd, "node_modules/.bin"), process.env.PATH].join(path.delimiter),
      HOME: home,
      CREWAI_DISABLE_TELEMETRY: "true",
      OTEL_SDK_DISABLED: "true",
      PYTHONDONTWRITEBYTECODE: "1",
      ...settings,
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
  return { output, fault: ending === "exit code 0" ? undefined : `${ending}\n${errors.slice(-2_000)}` };
}
