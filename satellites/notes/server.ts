import { serve } from "@hono/node-server";
import { createNotes } from "./app.ts";

const drainTimeoutMs = 10_000;

function open() {
  try {
    return createNotes(process.env, { log: (line) => console.log(line) });
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    return process.exit(1);
  }
}

const { fetch, host, port } = open();
const server = serve({ fetch, hostname: host, port, overrideGlobalObjects: false }, () =>
  console.log(`listening on ${process.env.BASE_URL} (${host}:${port})`),
);
server.on("error", (error) => {
  console.error(error.message);
  process.exit(1);
});
for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.once(signal, () => {
    server.close(() => process.exit(0));
    if ("closeIdleConnections" in server) server.closeIdleConnections();
    setTimeout(() => process.exit(0), drainTimeoutMs).unref();
  });
}
