import { type Span, spansOver } from "../faults/spans.ts";
import type { Answered, Finding } from "../journal.ts";
import { type Verdict, verdict } from "./verdict.ts";

const named = ({ target, what, status, code, requestId, startedAt, actor }: Answered) =>
  `${new Date(startedAt).toISOString()} ${actor}: ${target} ${what} → ${status ?? "no answer"} ${code ?? ""}${requestId ? ` (request ${requestId})` : ""}`;

const failed = ({ status, left }: Answered) => (status === null ? !left : status >= 500);

/** Nobody was failed but while something was down that the call hangs on, or had just come back; and then not by a 500. */
export function judgeAnswers(answers: readonly Answered[], spans: readonly Span[]): Verdict {
  const failures = answers.filter((answer) => failed(answer) && !(answer.asked && answer.status !== 500));
  // A 500 is a defect, whatever was down: an outage is told by 503, 502 or 504.
  const unexcused = failures.filter((answer) => answer.status === 500 || spansOver(answer, spans).length === 0);
  const kinds = Map.groupBy(failures, ({ target, status }) => `${target} ${status ?? "unanswered"}`);
  const figures = [...kinds].map(([kind, { length }]) => `${kind} ×${length}`).join(", ");
  return verdict("no 5xx but within a fault", {
    figures: `${answers.length} calls, ${failures.length} failed${figures ? `: ${figures}` : ""}`,
    failures: unexcused.map(named),
  });
}

/** What clients saw that they should not have seen at any time. */
export function judgeFindings(findings: readonly Finding[]): Verdict {
  return verdict("clients saw nothing odd", {
    figures: `${findings.length} findings`,
    failures: findings.map(({ at, actor, text }) => `${new Date(at).toISOString()} ${actor}: ${text}`),
  });
}

/** Every fault came to its end. */
export function judgeFaults(spans: readonly Span[]): Verdict {
  const failures = spans
    .filter(({ until }) => until === null)
    .map(({ kind, from }) => `${kind} of ${new Date(from).toISOString()} was not over`);
  const kinds = Map.groupBy(spans, ({ kind }) => kind);
  const figures = [...kinds].map(([kind, { length }]) => `${kind} ×${length}`).join(", ");
  return verdict("everything came back", { figures: figures || "no faults", failures });
}
