import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { type ServiceProcess, startServer } from "../gateway/service-process.ts";

const execute = promisify(execFile);
const installTimeoutMs = 10 * 60_000;
/** Importing LiteLLM takes tens of seconds on a cold disk. */
const startTimeoutMs = 120_000;
const requirements = path.resolve(import.meta.dirname, "litellm.txt");
const version = /^litellm==(\S+)/m.exec(readFileSync(requirements, "utf8"))?.[1] ?? "";
const directory = path.resolve(`.local/peers/litellm-${version}`);
const stamp = path.join(directory, ".installed");
const workers = 2;

export const litellmLabel: string = `LiteLLM ${version}`;
/** LiteLLM does not start without a key. */
export const litellmKey = "sk-bench-only-0123456789abcdef0123456789abcdef";

/**
 * Installs LiteLLM's proxy below `.local/` if it is missing, and starts it with two workers in front of the upstream.
 * @throws Error if Python 3 is missing, or the installation or the start fails
 */
export async function startLitellm(upstream: string, signal: AbortSignal): Promise<ServiceProcess> {
  if (!existsSync(stamp)) await install(signal);
  const config = path.join(directory, "config.json");
  const parameters = { model: "openai/demo-chat", api_base: `${upstream}/v1`, api_key: "bench" };
  // LiteLLM reads YAML, and JSON is valid YAML.
  await writeFile(config, JSON.stringify({ model_list: [{ model_name: "demo-chat", litellm_params: parameters }] }));
  return startServer({
    command: path.join(directory, "venv/bin/litellm"),
    args: (port) => [
      ...["--config", config, "--host", "127.0.0.1", "--port", String(port)],
      ...["--num_workers", String(workers), "--telemetry", "False"],
    ],
    env: () => ({ LITELLM_MASTER_KEY: litellmKey, LITELLM_LOCAL_MODEL_COST_MAP: "True", LITELLM_LOG: "ERROR" }),
    startTimeoutMs,
  });
}

async function install(signal: AbortSignal): Promise<void> {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  const options = { cwd: directory, timeout: installTimeoutMs, signal };
  await execute("python3", ["-m", "venv", "venv"], options);
  const pinned = ["--require-hashes", "--only-binary", ":all:", "--requirement", requirements];
  const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...pinned];
  await execute(path.join(directory, "venv/bin/python"), pip, options);
  await writeFile(stamp, version);
}
