import { createServer } from "node:http";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { createBackgroundTasks } from "./background.ts";
import { runtime } from "./deno-api.ts";
import { createDispatch, describeFailure, handlerFailure } from "./dispatch.ts";
import { createListener } from "./listener.ts";
import { loadFunctions } from "./registry.ts";

const root = fileURLToPath(new URL("../../../../", import.meta.url));
/** How long requests in progress may go on after we are told to stop, and then what they left to be done. */
const requestLimitMs = 2_000;
const backgroundLimitMs = 4_000;
export const stopLimitMs = requestLimitMs + backgroundLimitMs + 500;
/** As the stack's gateway, which stands before it. */
const maxHeaderSize = 32 * 1024;

/** The folder that the functions are in. */
export const functionsFolder = process.env.FUNCTIONS_DIR ?? path.join(root, "supabase/functions");

/**
 * Loads all functions and serves them on PORT.
 * @returns how to stop: no new requests, those in progress and their background work get a bounded time
 */
export async function startHost(): Promise<{ stop: () => Promise<void> }> {
  const background = createBackgroundTasks((error) => console.error(error));
  runtime.EdgeRuntime = { waitUntil: background.waitUntil };
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    console.error(event.reason);
  });
  const functions = await loadFunctions(functionsFolder, runtime.Deno);
  for (const loaded of functions.values()) if ("error" in loaded) console.error(describeFailure(loaded, root));

  const hostname = process.env.HOST ?? "127.0.0.1";
  const port = Number(process.env.PORT);
  const dispatch = createDispatch(functions, { root, reloads: process.env.RELOAD === "1" });
  // Deno's own server never tells of a client that leaves before its answer, unless head and body came in one packet.
  const server = createServer({ maxHeaderSize }, createListener(dispatch, handlerFailure));
  server.listen(port, hostname, () => console.log(`${functions.size} functions on http://${hostname}:${port}`));
  return {
    async stop() {
      globalThis.dispatchEvent(new CustomEvent("beforeunload", { detail: { reason: "termination" } }));
      const timer = setTimeout(() => server.closeAllConnections(), requestLimitMs);
      await new Promise((resolve) => {
        server.close(resolve);
        server.closeIdleConnections();
      });
      clearTimeout(timer);
      const left = await background.drain(backgroundLimitMs);
      if (left > 0) console.error(`${left} background tasks were not done in time`);
    },
  };
}
