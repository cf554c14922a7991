/**
 * Preloaded into a web server under test (`--import`): writes each call that it makes to its output, and kills the
 * process after the answer to the call that `DIE_AFTER` names has come, before anything is done with it.
 */
const passOn = globalThis.fetch;

globalThis.fetch = async (input, init) => {
  const { pathname } = new URL(input instanceof Request ? input.url : input);
  const response = await passOn(input, init);
  process.stdout.write(`call ${pathname}\n`);
  if (process.env.DIE_AFTER && pathname.endsWith(process.env.DIE_AFTER)) {
    await response.clone().arrayBuffer();
    process.kill(process.pid, "SIGKILL");
    // Nothing runs after it, whatever the moment at which the signal arrives.
    await new Promise(() => {});
  }
  return response;
};
