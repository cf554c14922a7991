/**
 * Preloaded into a web server. Records each call to the backend, and sends the records to the parent process on
 * request.
 */
const calls: { method: string; path: string; beganMs: number; endedMs: number }[] = [];
const ask = globalThis.fetch;

globalThis.fetch = async (input, init) => {
  const { method, url } = input instanceof Request ? input : { method: init?.method ?? "GET", url: String(input) };
  const beganMs = performance.now();
  try {
    return await ask(input, init);
  } finally {
    const { pathname, search } = new URL(url);
    calls.push({ method, path: pathname + search, beganMs, endedMs: performance.now() });
  }
};

process.on("message", () => process.send?.(calls.splice(0)));
process.channel?.unref();

export {};
