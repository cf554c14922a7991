import type { PlannedFault } from "../faults/plan.ts";
import { isSlowness, type Span, spansOver } from "../faults/spans.ts";
import type { Answered, Finding } from "../journal.ts";
import { type Verdict, verdict } from "./verdict.ts";

const named = ({ target, what, status, code, requestId, startedAt, actor }: Answered) =>
  `${new Date(startedAt).toISOString()} ${actor}: ${target} ${what} → ${status ?? "no answer"} ${code ?? ""}${requestId ? ` (request ${requestId})` : ""}`;

const failed = ({ status, left }: Answered) => (status === null ? !left : status >= 500);

/**
 * The maximum number of failures that one slow fault excuses. Each must be a 503 response with an error code. Six runs
 * with 16 slow faults had no such failures. A machine that is busy with other work may have a few.
 */
export const mostOfSlowness = 5;

/**
 * Returns the failures that no fault excuses. A fault that only slows a part down excuses at most {@link
 * mostOfSlowness} failures, which must be 503s with an error code.
 */
function unexcusedOf(failures: readonly Answered[], spans: readonly Span[]): Answered[] {
  const slowed = new Map<Span, number>();
  return failures.filter((answer) => {
    // A 500 is always a defect: outages are answered with 503, 502 or 504.
    if (answer.status === 500) return true;
    const over = spansOver(answer, spans);
    if (over.some((span) => !isSlowness(span))) return false;
    const [slow] = over;
    if (!slow || answer.status !== 503 || answer.code === null) return true;
    slowed.set(slow, (slowed.get(slow) ?? 0) + 1);
    return (slowed.get(slow) ?? 0) > mostOfSlowness;
  });
}

/** Checks that calls failed only while a part they depend on was down or had just recovered, and never with a 500. */
export function judgeAnswers(answers: readonly Answered[], spans: readonly Span[]): Verdict {
  const failures = answers.filter((answer) => failed(answer) && !(answer.asked && answer.status !== 500));
  const unexcused = unexcusedOf(failures, spans);
  const keysUsed = answers.filter(({ code }) => code === "idempotency_key_used").length;
  const kinds = Map.groupBy(failures, ({ target, status }) => `${target} ${status ?? "unanswered"}`);
  const figures = [...kinds].map(([kind, { length }]) => `${kind} ×${length}`).join(", ");
  return verdict("no 5xx but within a fault", {
    figures: `${answers.length} calls, ${failures.length} failed${figures ? `: ${figures}` : ""}; ${keysUsed} told idempotency_key_used`,
    failures: unexcused.map(named),
  });
}

/** Checks that clients reported no findings, which are things that must never happen. */
export function judgeFindings(findings: readonly Finding[]): Verdict {
  return verdict("clients saw nothing odd", {
    figures: `${findings.length} findings`,
    failures: findings.map(({ at, actor, text }) => `${new Date(at).toISOString()} ${actor}: ${text}`),
  });
}

/** Checks that every planned fault happened and ended. */
export function judgeFaults(spans: readonly Span[], planned: readonly PlannedFault[]): Verdict {
  const failures = [
    ...spans
      .filter(({ until }) => until === null)
      .map(({ kind, from }) => `${kind} of ${new Date(from).toISOString()} was not over`),
    // Faults happen one after another, in the order of the plan.
    ...planned.slice(spans.length).map(({ kind, atMs }) => `${kind}, planned at ${atMs / 1_000} s, was not reached`),
  ];
  const kinds = Map.groupBy(spans, ({ kind }) => kind);
  const figures = [...kinds].map(([kind, { length }]) => `${kind} ×${length}`).join(", ");
  return verdict("everything came back", { figures: figures || "no faults", failures });
}
