import { once } from "node:events";

/**
 * Preloaded into a web server under test (`--import`): writes each call that it makes to its output. The call that
 * `UNREACHABLE` names meets a network that is gone; of the one that `LOSES_ANSWER` names the first answer is lost; the
 * first one that `HOLDS` names waits until the process gets SIGUSR2. After the answer to the one that `DIE_AFTER` names
 * the process is killed, before anything is done with it.
 */
const passOn = globalThis.fetch;
let lost = false;
let held = false;

globalThis.fetch = async (input, init) => {
  const { pathname } = new URL(input instanceof Request ? input.url : input);
  const { DIE_AFTER, HOLDS, LOSES_ANSWER, UNREACHABLE } = process.env;
  if (UNREACHABLE && pathname.endsWith(UNREACHABLE)) throw new TypeError("fetch failed");
  if (HOLDS && pathname.endsWith(HOLDS) && !held) {
    held = true;
    const released = once(process, "SIGUSR2");
    process.stdout.write(`held ${pathname}\n`);
    await released;
  }
  const response = await passOn(input, init);
  process.stdout.write(`call ${pathname}\n`);
  if (LOSES_ANSWER && pathname.endsWith(LOSES_ANSWER) && !lost) {
    lost = true;
    await response.arrayBuffer();
    throw new TypeError("fetch failed");
  }
  if (DIE_AFTER && pathname.endsWith(DIE_AFTER)) {
    await response.clone().arrayBuffer();
    process.kill(process.pid, "SIGKILL");
    // Nothing runs after it, whatever the moment at which the signal arrives.
    await new Promise(() => {});
  }
  return response;
};
