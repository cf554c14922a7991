import { countOf, formatCount } from "../../ui/format-amount.ts";

/** What callers got whose calls failed at a provider, as `private.count_failed_callers` returns it. */
export interface FailedCallers {
  calls: number;
  answeredElsewhere: number;
  /** By HTTP status, which is null without an answer, and error code. */
  failed: readonly { status: number | null; code: string; calls: number }[];
}

/** Describes what callers got: "412 calls: 398 answered by another route, 14 got 503 upstream_error". */
export function describeCallers({ calls, answeredElsewhere, failed }: FailedCallers): string {
  if (calls === 0) return "No ended call has failed there since then.";
  const parts = failed.map(({ status, code, calls: count }) => {
    const got = status === null ? code : `${status} ${code}`;
    return `${formatCount(count)} got ${got}`;
  });
  if (answeredElsewhere > 0) parts.unshift(`${formatCount(answeredElsewhere)} answered by another route`);
  return `${countOf(calls, "call")}: ${parts.join(", ")}`;
}
