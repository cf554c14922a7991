/** One line of the audit. */
export type Verdict = {
  check: string;
  ok: boolean;
  /** What was counted, for the table. */
  figures: string;
  /** What is wrong, each with where to look. */
  failures: string[];
};

/** A verdict by its failures: none is well. */
export function verdict(check: string, { figures, failures }: Pick<Verdict, "figures" | "failures">): Verdict {
  return { check, ok: failures.length === 0, figures, failures };
}
