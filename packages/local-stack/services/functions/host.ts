import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { createBackgroundTasks } from "./background.ts";
import { runtime } from "./deno-api.ts";
import { createDispatch, describeFailure, handlerFailure } from "./dispatch.ts";
import { loadFunctions } from "./registry.ts";
import { responseLoop } from "./response-loops.ts";

const root = fileURLToPath(new URL("../../../../", import.meta.url));
/** How long running requests, and then their background work, may continue after we are asked to stop. */
const requestLimitMs = 2_000;
const backgroundLimitMs = 4_000;
export const stopLimitMs = requestLimitMs + backgroundLimitMs + 500;

/** The folder that contains the functions. */
export const functionsFolder = process.env.FUNCTIONS_DIR ?? path.join(root, "supabase/functions");

/**
 * Loads all functions and serves them on PORT.
 * @returns a function that stops the host. It refuses new requests, and gives running ones and their background work
 * limited time.
 */
export async function startHost(): Promise<{ stop: () => Promise<void> }> {
  const background = createBackgroundTasks((error) => console.error(error));
  runtime.EdgeRuntime = { waitUntil: background.waitUntil };
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    console.error("Unhandled rejection, which ends the isolate on hosted Supabase:", event.reason);
  });
  // Functions get a replacement for `serve`, so keep the real one.
  const { serve } = runtime.Deno;
  const functions = await loadFunctions(functionsFolder, runtime.Deno);
  for (const loaded of functions.values()) if ("error" in loaded) console.error(describeFailure(loaded, root));

  const hostname = process.env.HOST ?? "127.0.0.1";
  const port = Number(process.env.PORT);
  const dispatch = createDispatch(functions, { root, reloads: process.env.RELOAD === "1" });
  const stopServing = responseLoop(process.env.LOCAL_RESPONSE_LOOP, { serve })(dispatch, {
    hostname,
    port,
    onListen: () => console.log(`${functions.size} functions on http://${hostname}:${port}`),
    onError: handlerFailure,
  });
  return {
    async stop() {
      globalThis.dispatchEvent(new CustomEvent("beforeunload", { detail: { reason: "termination" } }));
      await stopServing(requestLimitMs);
      const remainingTasks = await background.drain(backgroundLimitMs);
      if (remainingTasks > 0) console.error(`${remainingTasks} background tasks were not done in time`);
    },
  };
}
