/** Steps that are counted, and shown as they begin; and the time that all of them may take. */
export type Progress = {
  /**
   * Says what begins.
   * @throws OutOfTime where the limit has passed, unless it has to be done all the same
   * @throws the signal's reason once that has fallen
   */
  begin: (what: string, options?: { always: boolean }) => void;
  /** Says how far the step is, on a terminal alone. */
  show: (what: string) => void;
  /** Ends the line of the last. */
  end: () => void;
  leftMs: () => number;
};

/** There is no time left. What was measured by then stands. */
export class OutOfTime extends Error {
  override name = "OutOfTime";
}

type Terminal = { isTTY?: boolean | undefined; columns?: number | undefined; write: (text: string) => unknown };

/** One line that changes on a terminal; elsewhere a line a step. */
export function createProgress(
  options: { steps: number; limitMs: number; signal?: AbortSignal; now?: () => number },
  out: Terminal,
): Progress {
  const { steps, limitMs, signal, now = () => performance.now() } = options;
  const startedAt = now();
  const elapsedMs = () => now() - startedAt;
  let done = 0;

  function write(what: string): void {
    const seconds = String(Math.round(elapsedMs() / 1_000)).padStart(3);
    const line = `${seconds} s  ${String(done).padStart(String(steps).length)}/${steps}  ${what}`;
    out.write(out.isTTY ? `\r\x1b[2K${line.slice(0, (out.columns ?? 80) - 1)}` : `${line}\n`);
  }

  return {
    begin(what, { always } = { always: false }) {
      signal?.throwIfAborted();
      if (!always && elapsedMs() > limitMs) {
        throw new OutOfTime(`The time is over (${Math.round(limitMs / 1_000)} s). Left out from here: ${what}`);
      }
      done = Math.min(done + 1, steps);
      write(what);
    },
    show: (what) => out.isTTY && write(what),
    end: () => out.isTTY && out.write("\r\x1b[2K"),
    leftMs: () => Math.max(0, limitMs - elapsedMs()),
  };
}
