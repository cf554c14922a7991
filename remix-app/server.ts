import { existsSync } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { getRequestListener } from "@hono/node-server";
import type { ServerBuild } from "@remix-run/server-runtime";
import { parseEnv } from "./env.server.ts";
import { platformRuntime } from "./platform.ts";
import type { Runtime } from "./runtime.ts";
import { parseSatelliteEnv } from "./satellite-env.server.ts";
import { satelliteRuntime } from "./satellites/own/satellite-runtime.ts";
import { startSchedule } from "./schedule/schedule.ts";

/** How long requests under way may take once the process has been told to stop. */
const drainTimeoutMs = 10_000;
const requestTimeoutMs = 30_000;
/** Twice Node's own, so that a browser whose cookies have grown too many still reaches what takes them away. */
const maxHeaderBytes = 32 * 1024;
/** Above the 60 s for which balancers keep an idle connection, so that none sends a request into one we are closing. */
const keepAliveTimeoutMs = 65_000;

const isPlatform = (process.env.APP_NAME || "web") === "web";
const runtime = boot(() =>
  isPlatform ? platformRuntime(parseEnv(process.env)) : satelliteRuntime(parseSatelliteEnv(process.env)),
);
const env = runtime.settings;
const development = env.NODE_ENV === "development";
// React chooses its build by this when it is loaded, so whatever loads it is imported after this line.
process.env.NODE_ENV = development ? "development" : "production";

const server = createServer({
  requestTimeout: requestTimeoutMs,
  maxHeaderSize: maxHeaderBytes,
  keepAliveTimeout: keepAliveTimeoutMs,
});
const vite = development ? await startVite() : null;
const clientDir = path.resolve("build/client");
const build = vite
  ? () => vite.ssrLoadModule("virtual:remix/server-build") as Promise<ServerBuild>
  : await loadBuild(path.resolve("build/server/index.js"));

let draining = false;
const { createApp } = await import("./app.ts");
const app = createApp({
  runtime,
  build,
  ...(vite ? {} : { clientDir }),
  draining: () => draining,
  log: (line) => console.log(line),
});

const listener = getRequestListener(app.fetch, { overrideGlobalObjects: false });
server.on("request", (request, response) => {
  if (vite) vite.middlewares(request, response, () => void listener(request, response));
  else void listener(request, response);
});
server.on("error", (error: NodeJS.ErrnoException) => {
  const taken = `Port ${env.PORT} on ${env.HOST} is taken: stop its owner or set PORT to another.`;
  console.error(error.code === "EADDRINUSE" ? taken : error.message);
  process.exit(1);
});
server.listen(env.PORT, env.HOST, () => console.log(`listening on ${env.BASE_URL} (${env.HOST}:${env.PORT})`));

void runtime.findFaults().then((faults) => {
  for (const fault of faults) console.error(`error ${fault}`);
});

const stopSchedule = startSchedule({ tasks: runtime.tasks, log: (line) => console.log(line) });

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.on(signal, () => {
    if (draining) return;
    draining = true;
    stopSchedule();
    const forced = setTimeout(() => server.closeAllConnections(), drainTimeoutMs);
    server.close(async () => {
      clearTimeout(forced);
      await vite?.close();
      process.exit(0);
    });
    server.closeIdleConnections();
  });
}

function boot(open: () => Runtime): Runtime {
  try {
    return open();
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exit(1);
  }
}

async function startVite() {
  const { createServer: createViteServer } = await import("vite");
  return createViteServer({ appType: "custom", server: { middlewareMode: true, hmr: { server } } });
}

async function loadBuild(file: string): Promise<() => Promise<ServerBuild>> {
  if (!existsSync(file)) {
    console.error("There is no build to serve: run `npm run build` first.");
    process.exit(1);
  }
  const loaded = (await import(pathToFileURL(file).href)) as ServerBuild;
  return async () => loaded;
}
