import path from "node:path";
import { z } from "zod";
import { recoveryHashSecret } from "../../start/secrets.ts";
import type { Stack } from "../../test/stack.ts";
import { type ServiceProcess, startServer } from "../gateway/service-process.ts";

const tracer = path.resolve(import.meta.dirname, "../processes/trace-calls.ts");
const server = path.resolve(import.meta.dirname, "../../../remix-app/server.ts");

const calls = z.array(z.object({ method: z.string(), path: z.string(), beganMs: z.number(), endedMs: z.number() }));

/** A call to the backend, with times in milliseconds of the web server's own clock. */
export type BackendCall = z.infer<typeof calls>[number];

/** A web server in production mode that the bench runs against the stack's project. It reports its backend calls. */
export type TracedWeb = Pick<ServiceProcess, "url" | "pid" | "stop"> & {
  /** Returns the calls since the last time this was called. */
  takeCalls: () => Promise<BackendCall[]>;
};

/**
 * Starts a web server that reports its backend calls.
 * @param vault environment variables with the keys to the browser data that the stack's own web server stores
 */
export async function startTracedWeb(stack: Stack, vault: Record<string, string>): Promise<TracedWeb> {
  const web = await startWebServer(stack, { nodeOptions: ["--import", tracer], env: vault });
  return {
    url: web.url,
    pid: web.pid,
    stop: web.stop,
    takeCalls: async () => calls.parse(await web.ask("calls")),
  };
}

/** Starts a web server in production mode against the stack's project. */
export function startWebServer(
  { supabase }: Stack,
  { nodeOptions = [], env }: { nodeOptions?: string[]; env: Record<string, string> },
): Promise<ServiceProcess> {
  return startServer({
    args: () => [...nodeOptions, server],
    env: (port) => ({
      NODE_ENV: "production",
      APP_NAME: "web",
      HOST: "127.0.0.1",
      BASE_URL: `http://127.0.0.1:${port}`,
      TRUSTED_PROXY_HOPS: "1",
      SUPABASE_URL: supabase.url,
      SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
      SUPABASE_SECRET_KEY: supabase.secretKey,
      AUTH_RECOVERY_HASH_SECRET: recoveryHashSecret(supabase.secretKey),
      OAUTH_PROVIDERS: "google,github",
      ...env,
    }),
  });
}

/** Returns the milliseconds during which at least one of the calls was running. */
export function busyMs(made: readonly BackendCall[]): number {
  let total = 0;
  let until = Number.NEGATIVE_INFINITY;
  for (const { beganMs, endedMs } of [...made].sort((a, b) => a.beganMs - b.beganMs)) {
    total += Math.max(0, endedMs - Math.max(beganMs, until));
    until = Math.max(until, endedMs);
  }
  return total;
}

export const toIdentity = ({ path }: BackendCall): boolean => path.startsWith("/auth/v1/");
export const isRefresh = ({ path }: BackendCall): boolean =>
  /^\/auth\/v1\/token\?.*grant_type=refresh_token/.test(path);
