import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { forward } from "../gateway/forward.ts";
import type { Refusal } from "../gateway/refusals.ts";

const host = "127.0.0.1";
const checkIntervalMs = 200;
const checkTimeoutMs = 1_000;

/** The ports of the servers behind each port that this process listens on. */
const frontPorts = z
  .record(z.string(), z.array(z.number()).nonempty())
  .parse(JSON.parse(process.env.FRONTS ?? "{}") as unknown);
const noServer: Refusal = {
  status: 503,
  body: { code: "service_unavailable", message: "No server can be reached. Please try again in a moment." },
};

/** The servers that passed their last health check. */
const healthy = new Set<number>();

async function watch(port: number): Promise<never> {
  for (;;) {
    const answered = await fetch(`http://${host}:${port}/healthz`, { signal: AbortSignal.timeout(checkTimeoutMs) })
      .then((response) => response.ok)
      .catch(() => false);
    if (answered) healthy.add(port);
    else healthy.delete(port);
    await sleep(checkIntervalMs);
  }
}

/** Distributes requests, not connections, round-robin over the healthy servers. Adds nothing to X-Forwarded-For. */
for (const [frontPort, servers] of Object.entries(frontPorts)) {
  for (const port of servers) void watch(port);
  let nextIndex = 0;
  createServer((incoming, outgoing) => {
    const usable = servers.filter((port) => healthy.has(port));
    nextIndex += 1;
    const port = (usable.length > 0 ? usable : servers)[nextIndex % (usable.length || servers.length)];
    forward(incoming, outgoing, {
      origin: `http://${host}:${port}`,
      path: incoming.url ?? "/",
      headers: incoming.headers,
      unreachable: noServer,
    });
  })
    .listen(Number(frontPort), host, () => console.log(`balancer listens on ${frontPort} for ${servers.join(", ")}`))
    .once("error", (error) => {
      console.error(`The balancer cannot listen on ${frontPort}: ${error.message}`);
      process.exit(1);
    });
}

for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => process.exit(0));
