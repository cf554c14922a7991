import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { freePort } from "@gatehousehq/local-stack/ports";
import { functionsCommand } from "@gatehousehq/local-stack/services/functions/deno-arguments";
import { vi } from "vitest";
import { readStack } from "../../../scripts/test/stack.ts";

/** A gateway in a process of its own, as its image runs it. */
export type GatewayProcess = {
  url: string;
  child: ChildProcess;
  /** Sends SIGTERM. @returns the exit code */
  stop: () => Promise<number | null>;
};

/** Returns the settings of a gateway that uses the running stack's database and accounts. */
export function gatewayEnvironment(): Record<string, string> {
  const { supabase, gatewayDbUrl } = readStack();
  return {
    HOST: "127.0.0.1",
    SUPABASE_URL: supabase.url,
    SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
    SUPABASE_SECRET_KEY: supabase.secretKey,
    GATEWAY_DB_URL: gatewayDbUrl,
  };
}

/** Starts a gateway on a free port, and waits until it listens. */
export async function startGatewayProcess(env: Record<string, string>): Promise<GatewayProcess> {
  const root = path.resolve(import.meta.dirname, "../../..");
  const { command, args } = functionsCommand(root);
  const port = await freePort();
  const child = spawn(command, args, {
    cwd: root,
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, ...gatewayEnvironment(), ...env, PORT: String(port) },
  });
  const url = `http://127.0.0.1:${port}`;
  await vi.waitFor(() => fetch(`${url}/healthz`), { timeout: 25_000, interval: 100 });
  async function stop(): Promise<number | null> {
    child.kill("SIGTERM");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    return child.exitCode;
  }
  return { url, child, stop };
}
