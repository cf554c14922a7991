import { once } from "node:events";
import type { Trouble } from "./watched-web.ts";

/**
 * Preloaded into a web server under test (`--import`): writes each call that it makes to its output, and makes the
 * trouble that the test tells it of.
 */
const passOn = globalThis.fetch;
let trouble: Trouble = {};

process.on("message", (message: Trouble) => {
  trouble = message;
  process.send?.("told");
});

/** Whether a call has this trouble. What happens to the first one alone is over with it. */
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
    // Nothing runs after it, whatever the moment at which the signal arrives.
    await new Promise(() => {});
  }
  return response;
};
