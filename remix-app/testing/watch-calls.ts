/**
 * Preloaded into a web server under test (`--import`): writes each call that it makes to its output. The call that
 * `UNREACHABLE` names meets a network that is gone; of the one that `LOSES_ANSWER` names the first answer is lost. After the answer to the one that `DIE_AFTER` names the process is
 * killed, before anything is done with it.
 */
const passOn = globalThis.fetch;
let lost = false;

globalThis.fetch = async (input, init) => {
  const { pathname } = new URL(input instanceof Request ? input.url : input);
  const { DIE_AFTER, LOSES_ANSWER, UNREACHABLE } = process.env;
  if (UNREACHABLE && pathname.endsWith(UNREACHABLE)) throw new TypeError("fetch failed");
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
