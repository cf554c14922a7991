import { startHost } from "./host.ts";

/** The host in a thread of its own, so that a reload gets fresh modules; told to stop by any message. */
const starting = startHost();
globalThis.onmessage = async () => {
  await (await starting).stop();
  globalThis.postMessage("stopped");
};
