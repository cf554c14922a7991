import { subscribe } from "node:diagnostics_channel";
import type { ClientRequest } from "node:http";

/**
 * Preloaded into a web server. Records each call to the backend, and sends the records to the parent process on
 * request.
 */
const calls: { method: string; path: string; beganMs: number; endedMs: number }[] = [];

subscribe("http.client.request.start", (message) => {
  const { request } = message as { request: ClientRequest };
  const beganMs = performance.now();
  request.once("close", () => {
    calls.push({ method: request.method, path: request.path, beganMs, endedMs: performance.now() });
  });
});

process.on("message", () => process.send?.(calls.splice(0)));
process.channel?.unref();
