import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { glob, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { z } from "zod";
import { type ServiceProcess, startServer } from "../gateway/service-process.ts";

const execute = promisify(execFile);
const installTimeoutMs = 10 * 60_000;
/** Importing LiteLLM takes tens of seconds on a cold disk, and so does creating its tables. */
const startTimeoutMs = 240_000;
const requirementsFile = path.resolve(import.meta.dirname, "litellm.txt");
const requirements = readFileSync(requirementsFile, "utf8");
const version = /^litellm==(\S+)/m.exec(requirements)?.[1] ?? "";
const directory = path.resolve(`.local/peers/litellm-${version}`);
const programs = path.join(directory, "venv/bin");
const stamp = path.join(directory, ".installed");

export const litellmLabel: string = `LiteLLM ${version}`;
/** LiteLLM does not start without a key. */
export const litellmKey = "sk-bench-only-0123456789abcdef0123456789abcdef";

/** What LiteLLM needs to enforce budgets: a database for its keys, and the price of the model. */
type Budgets = { databaseUrl: string; inputUsdPerToken: number; outputUsdPerToken: number };

/**
 * Installs LiteLLM's proxy below `.local/` if it is missing, and starts it in front of the upstream: with two workers,
 * or with one that enforces budgets. Only a Redis would let several workers share what they have reserved
 * (docs.litellm.ai/docs/proxy/redis_requirements).
 * @throws Error if Python 3 is missing, or the installation or the start fails
 */
export async function startLitellm(
  upstream: string,
  { signal, budgets }: { signal: AbortSignal; budgets?: Budgets },
): Promise<ServiceProcess> {
  if ((await readFile(stamp, "utf8").catch(() => "")) !== requirements) await install(signal);
  if (budgets) await generatePrismaClient(signal);
  const config = path.join(directory, "config.json");
  const parameters = { model: "openai/demo-chat", api_base: `${upstream}/v1`, api_key: "bench" };
  const prices = budgets && {
    model_info: { input_cost_per_token: budgets.inputUsdPerToken, output_cost_per_token: budgets.outputUsdPerToken },
  };
  // LiteLLM reads YAML, and JSON is valid YAML.
  await writeFile(
    config,
    JSON.stringify({
      model_list: [{ model_name: "demo-chat", litellm_params: parameters, ...prices }],
      ...(budgets ? { general_settings: { fail_closed_budget_enforcement: true } } : {}),
    }),
  );
  return startServer({
    command: path.join(programs, "litellm"),
    args: (port) => [
      ...["--config", config, "--host", "127.0.0.1", "--port", String(port)],
      ...["--num_workers", budgets ? "1" : "2", "--telemetry", "False"],
    ],
    env: () => ({
      ...prismaVariables(),
      ...(budgets ? { DATABASE_URL: budgets.databaseUrl } : {}),
      LITELLM_MASTER_KEY: litellmKey,
      LITELLM_LOCAL_MODEL_COST_MAP: "True",
      LITELLM_LOG: "ERROR",
    }),
    startTimeoutMs,
  });
}

/** Creates a virtual key with a hard budget. */
export async function createLitellmKey(
  server: { url: string },
  { maxBudgetUsd }: { maxBudgetUsd: number },
): Promise<string> {
  const response = await fetch(`${server.url}/key/generate`, {
    method: "POST",
    headers: { authorization: `Bearer ${litellmKey}`, "content-type": "application/json" },
    body: JSON.stringify({ max_budget: maxBudgetUsd, models: ["demo-chat"] }),
  });
  if (!response.ok) throw new Error(`LiteLLM created no key: ${await response.text()}`);
  return z.looseObject({ key: z.string() }).parse(await response.json()).key;
}

/** Returns the cost in USD that LiteLLM's database has for a key. */
export async function readLitellmSpend(server: { url: string }, key: string): Promise<number> {
  const headers = { authorization: `Bearer ${litellmKey}` };
  const response = await fetch(`${server.url}/key/info?key=${key}`, { headers });
  if (!response.ok) throw new Error(`LiteLLM does not describe the key: ${await response.text()}`);
  const schema = z.looseObject({ info: z.looseObject({ spend: z.number() }) });
  return schema.parse(await response.json()).info.spend;
}

/** The variables that keep what Prisma installs, which is LiteLLM's database client, in LiteLLM's directory. */
function prismaVariables(): Record<string, string> {
  const binaries = path.join(directory, "prisma");
  return { PRISMA_HOME_DIR: binaries, PATH: `${programs}${path.delimiter}${process.env.PATH ?? ""}` };
}

/** Generates Prisma's client from LiteLLM's schema, which downloads Prisma's engines. */
async function generatePrismaClient(signal: AbortSignal): Promise<void> {
  const python = path.join(programs, "python");
  const options = { cwd: directory, timeout: installTimeoutMs, signal, env: { ...process.env, ...prismaVariables() } };
  const schemas = glob("venv/lib/python*/site-packages/litellm/proxy/schema.prisma", { cwd: directory });
  const [schema = ""] = await Array.fromAsync(schemas);
  await execute(python, ["-m", "prisma", "generate", "--schema", schema], options).catch((error: Error) => {
    throw new Error(`Prisma, LiteLLM's database client, cannot be prepared: ${error.message}`);
  });
}

async function install(signal: AbortSignal): Promise<void> {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  const options = { cwd: directory, timeout: installTimeoutMs, signal };
  await execute("python3", ["-m", "venv", "venv"], options).catch((error: NodeJS.ErrnoException) => {
    throw error.code === "ENOENT" ? new Error("It needs Python 3, which is not installed.") : error;
  });
  const pinned = ["--require-hashes", "--only-binary", ":all:", "--requirement", requirementsFile];
  const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...pinned];
  await execute(path.join(programs, "python"), pip, options);
  await writeFile(stamp, requirements);
}
