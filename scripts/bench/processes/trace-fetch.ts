/**
 * Loaded into a web server ahead of itself: notes each call that it makes of the backend, and hands over what it has
 * noted when its parent asks.
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
