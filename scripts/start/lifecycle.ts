import { startedShellOf } from "@gatehousehq/local-stack/runner/processes";

/**
 * Signals this close together count as one. On Ctrl-C, the terminal signals this process and npm, and npm may forward
 * its signal to this process.
 */
const oneRequestMs = 700;
const parentCheckMs = 500;

/**
 * Calls `stop` at the first request to stop (a signal, or the exit of the npm that started us) and `force` at a later
 * one.
 */
export function onStopRequest({ stop, force }: { stop: (why: string) => void; force: () => void }): void {
  let firstAt: number | undefined;
  function request(why: string): void {
    const now = performance.now();
    if (firstAt === undefined) {
      firstAt = now;
      stop(why);
    } else if (now - firstAt > oneRequestMs) {
      force();
    }
  }
  process.on("SIGINT", () => request("Ctrl-C"));
  process.on("SIGTERM", () => request("SIGTERM"));
  process.on("SIGHUP", () => request("The terminal is gone"));

  // npm may exit without a signal to us: the shell between npm and us forwards no signal and outlives npm.
  if (process.env.npm_lifecycle_event === undefined) return;
  const parent = process.ppid;
  const npm = startedShellOf(parent);
  const watch = setInterval(() => {
    if (process.ppid === parent && (npm === undefined || startedShellOf(parent) === npm)) return;
    clearInterval(watch);
    request("npm has ended");
  }, parentCheckMs);
  watch.unref();
}
