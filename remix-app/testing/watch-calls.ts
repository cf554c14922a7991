import { once } from "node:events";
import type { Trouble } from "./watched-web.ts";

/**
 * Preloaded into a web server under test (`--import`). Writes each outgoing call to the output, and causes the faults
 * that the test requests.
 */
const passOn = globalThis.fetch;
let trouble: Trouble = {};

process.on("message", (message: Trouble) => {
  trouble = message;
  process.send?.("told");
});

/** Returns whether a fault applies to a call. Clears faults that apply only to the first matching call. */
function meets(kind: keyof Trouble, pathname: string): boolean {
  const named = trouble[kind];
  if (named === undefined || !pathname.endsWith(named)) return false;
  if (kind === "holds" || kind === "losesAnswer") delete trouble[kind];
  return true;
}

globalThis.fetch = async (input, init) => {
  const { pathname } = new URL(input instanceof Request ? input.url : input);
  if (meets("unreachable", pathname)) throw new TypeError("fetch failed");
  if (meets("holds", pathname)) {
    const released = once(process, "SIGUSR2");
    process.stdout.write(`held ${pathname}\n`);
    await released;
  }
  const response = await passOn(input, init);
  process.stdout.write(`call ${pathname}\n`);
  if (meets("losesAnswer", pathname)) {
    await response.arrayBuffer();
    throw new TypeError("fetch failed");
  }
  if (meets("dieAfter", pathname)) {
    await response.clone().arrayBuffer();
    process.kill(process.pid, "SIGKILL");
    // Prevents any more code from running before the process is killed.
    await new Promise(() => {});
  }
  return response;
};
