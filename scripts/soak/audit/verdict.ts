/** One line of the audit. */
export type Verdict = {
  check: string;
  ok: boolean;
  /** The counts to print in the table. */
  figures: string;
  /** What is wrong, and where to look. */
  failures: string[];
};

/** Returns a verdict, which passes without failures. */
export function verdict(check: string, { figures, failures }: Pick<Verdict, "figures" | "failures">): Verdict {
  return { check, ok: failures.length === 0, figures, failures };
}

/** A call that must succeed once every service is back up, and its response. */
export type Probe = { what: string; expected: number; status: number; detail: string };

/** Checks that each probe was answered as expected. */
export function judgeProbes(probes: readonly Probe[]): Verdict {
  const failures = probes
    .filter(({ expected, status }) => status !== expected)
    .map(
      ({ what, expected, status, detail }) =>
        `${what} was answered ${status}, not ${expected}: ${detail.slice(0, 200)}`,
    );
  return verdict("works after all of it", { figures: `${probes.length} things`, failures });
}
