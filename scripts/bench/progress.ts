/** Counts steps and shows each one as it begins. */
export type Progress = {
  /** Starts the next step. @throws the signal's reason once it has aborted */
  begin: (what: string) => void;
  /** Shows the progress of the step, on a terminal only. */
  show: (what: string) => void;
  /** Clears the last line on a terminal. */
  end: () => void;
};

type Terminal = { isTTY?: boolean | undefined; columns?: number | undefined; write: (text: string) => unknown };

/** Returns a progress display that rewrites one line on a terminal, and prints a line per step elsewhere. */
export function createProgress(
  options: { steps: number; signal?: AbortSignal; now?: () => number },
  out: Terminal,
): Progress {
  const { steps, signal, now = () => performance.now() } = options;
  const startedAt = now();
  let done = 0;

  function write(what: string): void {
    const seconds = String(Math.round((now() - startedAt) / 1_000)).padStart(3);
    const line = `${seconds} s  ${String(done).padStart(String(steps).length)}/${steps}  ${what}`;
    out.write(out.isTTY ? `\r\x1b[2K${line.slice(0, (out.columns ?? 80) - 1)}` : `${line}\n`);
  }

  return {
    begin(what) {
      signal?.throwIfAborted();
      done = Math.min(done + 1, steps);
      write(what);
    },
    show: (what) => out.isTTY && write(what),
    end: () => out.isTTY && out.write("\r\x1b[2K"),
  };
}
