const width = 32;

/**
 * Returns a progress bar that fills on a terminal; elsewhere it prints a line for each tenth.
 * @param total the final value of `done`
 */
export function createProgress(
  { label, total }: { label: string; total: number },
  out: { isTTY?: boolean | undefined; write: (text: string) => unknown },
): (done: number) => void {
  const startedAt = performance.now();
  let tenth = -1;
  return (done) => {
    const share = total === 0 ? 1 : done / total;
    const rate = Math.round(done / Math.max(0.001, (performance.now() - startedAt) / 1_000));
    const text = `${label} ${done.toLocaleString("en")} of ${total.toLocaleString("en")} (${rate.toLocaleString("en")}/s)`;
    if (out.isTTY) {
      const full = Math.round(share * width);
      out.write(`\r${"█".repeat(full)}${"░".repeat(width - full)} ${text}${done >= total ? "\n" : ""}`);
    } else if (Math.floor(share * 10) > tenth) {
      tenth = Math.floor(share * 10);
      out.write(`${text}\n`);
    }
  };
}
