import { startHost } from "./host.ts";

/** Runs the host in its own thread, so that a reload gets fresh modules. Any message stops it. */
const starting = startHost();
globalThis.onmessage = async () => {
  await (await starting).stop();
  globalThis.postMessage("stopped");
};
