import cluster from "node:cluster";
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { getRequestListener } from "@hono/node-server";
import type { ServerBuild } from "@remix-run/node";
import { maxCallSeconds } from "#shared/longest-call.ts";
import { createDrain } from "./http/drain.ts";

// Serves requests in this process. All of our code with state comes from the build, so that it exists once.
type Entry = typeof import("./entry.server.tsx");

/** How long requests may take to begin their response, and streams to end, after the process was asked to stop. */
const drainLimits = { requestMs: 10_000, streamMs: maxCallSeconds * 1_000 };
/** How long the scheduled tasks may continue, such as sending claimed emails to a slow mail server. */
const scheduleDrainMs = 20_000;
const requestTimeoutMs = 30_000;
/** Twice Node's default, so that a browser with too many cookies can still load the page that removes them. */
const maxHeaderBytes = 32 * 1024;
/**
 * Longer than the 60 s for which load balancers keep an idle connection, so that they never reuse a connection that we
 * are closing.
 */
const keepAliveTimeoutMs = 65_000;

const processEnv = { ...process.env };
const development = processEnv.NODE_ENV === "development";
// React chooses its build by this variable when it is loaded.
process.env.NODE_ENV = development ? "development" : "production";

const server = createServer({
  requestTimeout: requestTimeoutMs,
  maxHeaderSize: maxHeaderBytes,
  keepAliveTimeout: keepAliveTimeoutMs,
  // Keeps idle connections open longer than the response headers promise, because busy clients may reuse a connection
  // after that time. Node's fetch, for example, counts timer ticks instead of time. Node before 24.6 ignores this
  // option and always adds one second.
  keepAliveTimeoutBuffer: 60_000,
});
const drain = createDrain(server, drainLimits);
const vite = development ? await startVite() : null;
const buildFile = path.resolve("build/server/index.js");
if (!vite && !existsSync(buildFile)) fail("No build found: run `npm run build` first.");
const loadBuild = async (): Promise<ServerBuild> =>
  vite
    ? ((await vite.ssrLoadModule("virtual:remix/server-build")) as ServerBuild)
    : await import(pathToFileURL(buildFile).href);
const entryOf = ({ entry }: ServerBuild) => entry.module as unknown as Entry;

let draining = false;
let build = await loadBuild();
let runtime = loadRuntime();
const { settings: env, schedule } = runtime;
let app = createApp();

const listener = getRequestListener(
  async (request, bindings) => {
    if (vite) await reloadChangedBuild();
    return app.fetch(request, bindings);
  },
  { overrideGlobalObjects: false },
);
server.on("request", (request, response) => {
  if (vite) vite.middlewares(request, response, () => void listener(request, response));
  else void listener(request, response);
});
server.on("error", (error: NodeJS.ErrnoException) => {
  const taken = `Port ${env.PORT} on ${env.HOST} is taken: stop its owner or set PORT to another.`;
  fail(error.code === "EADDRINUSE" ? taken : error.message);
});
server.listen(env.PORT, env.HOST, () =>
  entryOf(build).logInfo(`listening on ${env.BASE_URL} (${env.HOST}:${env.PORT})`),
);

if (cluster.isWorker) process.on("message", (message) => message === "schedule" && runSchedule());
else runSchedule();

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.on(signal, () => {
    if (draining) return;
    draining = true;
    const scheduleEnd = schedule.stop();
    cluster.worker?.send("draining");
    void Promise.all([drain(), Promise.race([scheduleEnd, sleep(scheduleDrainMs)])]).then(async () => {
      await Promise.all([vite?.close(), runtime.traces?.flush()]);
      process.exit(0);
    });
  });
}

/** Runs what one process does for all: the scheduled tasks, and the check of the environment. */
function runSchedule(): void {
  if (draining) return;
  if (env.SCHEDULE_LOOP) schedule.start();
  void runtime.findFaults().then((faults) => {
    for (const fault of faults) entryOf(build).logError(fault);
  });
}

function loadRuntime() {
  try {
    return entryOf(build).openRuntime(processEnv);
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error));
  }
}

function createApp() {
  const clientDir = vite ? {} : { clientDir: path.resolve("build/client") };
  return entryOf(build).createApp({ runtime, build, ...clientDir, draining: () => draining });
}

async function reloadChangedBuild(): Promise<void> {
  const current = await loadBuild();
  if (current === build) return;
  build = current;
  runtime = loadRuntime();
  app = createApp();
}

async function startVite() {
  const { createServer: createViteServer } = await import("vite");
  return createViteServer({ appType: "custom", server: { middlewareMode: true, hmr: { server } } });
}

function fail(message: string): never {
  console.error(message);
  process.exit(1);
}
