import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";

const startTimeoutMs = 60_000;

/** The built web server in its own process. */
export interface WebProcess {
  base: string;
  child: ChildProcess;
  output(): string;
  fetch(path: string, init?: RequestInit): Promise<Response>;
  stop(): Promise<number | null>;
}

/** Starts `remix-app/server.ts` on a free port, as production does, against the given backend. */
export function startWeb(
  supabaseUrl: string,
  {
    env = {},
    ...place
  }: { hostname?: string; env?: Record<string, string>; nodeOptions?: readonly string[]; told?: boolean } = {},
): Promise<WebProcess> {
  return startServer({
    ...place,
    env: {
      SUPABASE_URL: supabaseUrl,
      SUPABASE_PUBLISHABLE_KEY: "sb_publishable_test",
      SUPABASE_SECRET_KEY: "sb_secret_test",
      AUTH_RECOVERY_HASH_SECRET: "a secret of tests, for what recovery mails carry",
      ...env,
    },
  });
}

/** Starts Notes as a satellite with any name. The process gets only its name, its secret and the platform's URL. */
export function startSatellite({
  app,
  centralUrl,
  // Node cannot resolve names under .localhost if the system does not.
  centralApiUrl = `http://127.0.0.1:${new URL(centralUrl).port}`,
  env = {},
  ...place
}: {
  app: { name: string; secret: string };
  centralUrl: string;
  centralApiUrl?: string;
  env?: Record<string, string>;
  hostname?: string;
  port?: number;
  nodeOptions?: readonly string[];
}): Promise<WebProcess> {
  return startServer({
    hostname: "127.0.0.1",
    ...place,
    server: "satellites/notes/server.ts",
    env: {
      // Most tests change sessions directly in the database, which sends no notices that would clear the cache.
      INTROSPECTION_CACHE_SECONDS: "0",
      APP_NAME: app.name,
      APP_SECRET: app.secret,
      CENTRAL_URL: centralUrl,
      CENTRAL_API_URL: centralApiUrl,
      ...env,
    },
  });
}

async function startServer({
  hostname = "localhost",
  port: wished,
  env,
  nodeOptions = [],
  told = false,
  server = "remix-app/server.ts",
}: {
  server?: string;
  hostname?: string;
  port?: number;
  env: Record<string, string>;
  nodeOptions?: readonly string[];
  /** Whether to open an IPC channel, through which a preloaded module receives messages. */
  told?: boolean;
}): Promise<WebProcess> {
  const port = wished ?? (await freePort());
  const base = `http://${hostname}:${port}`;
  const { PATH = "", NODE_COMPILE_CACHE } = process.env;
  const child = spawn(process.execPath, [...nodeOptions, server], {
    stdio: ["ignore", "pipe", "pipe", ...(told ? ["ipc" as const] : [])],
    env: {
      PATH,
      ...(NODE_COMPILE_CACHE ? { NODE_COMPILE_CACHE } : {}),
      NODE_ENV: "production",
      BASE_URL: base,
      PORT: String(port),
      ...env,
    },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (output += chunk));
  const deadline = Date.now() + startTimeoutMs;
  while (!output.includes("listening")) {
    if (child.exitCode !== null || Date.now() > deadline) throw new Error(`The web server did not start:\n${output}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return {
    base,
    child,
    output: () => output,
    fetch: (path, init = {}) => fetch(`http://127.0.0.1:${port}${path}`, { redirect: "manual", ...init }),
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
      child.kill("SIGTERM");
      await once(child, "exit");
      return child.exitCode;
    },
  };
}

/** Returns a free port of this machine, below the range that systems use for outgoing connections. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 32_000);
    const server = createServer();
    server.listen(port, "127.0.0.1");
    const isFree = await once(server, "listening").then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, "close");
    return port;
  }
}
