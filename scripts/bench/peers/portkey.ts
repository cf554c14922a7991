import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { type ServiceProcess, startServer } from "../gateway/service-process.ts";

const execute = promisify(execFile);
const version = "1.15.2";
const installTimeoutMs = 120_000;
const directory = path.resolve(`.local/peers/portkey-${version}`);
const program = path.join(directory, "node_modules/@portkey-ai/gateway/build/start-server.js");

/** The `package.json` that installs Portkey. Without its overrides, Portkey's streams fail. */
const manifest = {
  name: "gatehouse-bench-peer",
  private: true,
  dependencies: { "@portkey-ai/gateway": version },
  overrides: { "@hono/node-server": "1.13.5", hono: "4.9.7" },
};

export const portkeyLabel: string = `Portkey ${version}`;

/**
 * Installs Portkey's gateway below `.local/` if it is missing, and starts it.
 * @throws Error if the installation or the start fails
 */
export async function startPortkey(signal: AbortSignal): Promise<ServiceProcess> {
  if (!existsSync(program)) await install(signal);
  return startServer({
    args: (port) => [program, `--port=${port}`, "--headless"],
    env: () => ({ NODE_ENV: "production" }),
  });
}

async function install(signal: AbortSignal): Promise<void> {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  await writeFile(path.join(directory, "package.json"), JSON.stringify(manifest, null, 2));
  const args = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  await execute("npm", args, { cwd: directory, timeout: installTimeoutMs, signal });
}
