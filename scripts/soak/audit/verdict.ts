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
