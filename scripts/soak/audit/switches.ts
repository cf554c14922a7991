import { recoveryMs, type Span } from "../faults/spans.ts";
import type { Answered, Target } from "../journal.ts";
import type { Ask, Attempt } from "../traffic/ai-caller.ts";
import { type Verdict, verdict } from "./verdict.ts";

type SwitchFacts = {
  spans: readonly Span[];
  answers: readonly Answered[];
  asks: readonly Ask[];
  /** The ids of all runs in the database. */
  runIds: ReadonlySet<string>;
};

/** Requests whose answer is streamed and needs the database only before and after it. */
const streams = ["stream", "long stream"];

const overlaps = ({ from, until }: Span, { startedAt, endedAt }: { startedAt: number; endedAt: number }) =>
  endedAt >= from && startedAt <= (until ?? Number.POSITIVE_INFINITY) + recoveryMs;
const hasFailed = ({ status, left, asked }: Answered) => !asked && (status === null ? !left : status >= 500);

/** Returns the spans in which another Postgres became the primary. */
export const switchesOf = (spans: readonly Span[]): Span[] =>
  spans.filter(({ kind }) => /^postgres (switchover|crash|node crash)$/.test(kind));

/** Returns the attempts whose stream had begun when the primary was lost. */
export const streamsOver = (asks: readonly Ask[], { from }: Span): Attempt[] =>
  asks
    .filter(({ what }) => streams.includes(what))
    .flatMap(({ attempts }) => attempts)
    .filter(({ startedAt, endedAt, status, left }) => startedAt < from && endedAt > from && status === 200 && !left);

/**
 * Returns the milliseconds from the loss of the primary until calls succeed again: the first success that began after
 * the last failure. 0 if no call failed, undefined if none succeeded after that.
 */
function outageMs(answers: readonly Answered[], { span, target }: { span: Span; target: Target }): number | undefined {
  const during = answers.filter((answer) => answer.target === target && overlaps(span, answer));
  const lastFailure = Math.max(...during.filter(hasFailed).map(({ startedAt }) => startedAt));
  if (lastFailure === Number.NEGATIVE_INFINITY) return 0;
  const successes = answers.filter(
    (answer) => answer.target === target && answer.status === 200 && answer.startedAt > lastFailure,
  );
  return successes.length === 0 ? undefined : Math.min(...successes.map(({ endedAt }) => endedAt)) - span.from;
}

/**
 * Checks that after each loss of the primary calls succeeded again, that each answered run is in the database, and that
 * streams in progress ended with their content.
 */
export function judgeSwitches({ spans, answers, asks, runIds }: SwitchFacts): Verdict {
  const failures: string[] = [];
  const figures = switchesOf(spans).map((span) => {
    const kind = span.kind.replace(/^postgres /, "");
    const calls = answers.filter((answer) => overlaps(span, answer));
    const inProgress = streamsOver(asks, span);
    const lost = asks
      .flatMap(({ attempts }) => attempts)
      .filter((attempt) => overlaps(span, attempt) && attempt.told && !runIds.has(attempt.told.runId));
    for (const { told } of lost) failures.push(`${kind}: run ${told?.runId} was answered and is lost`);
    for (const { told, requestId } of inProgress) {
      if (!told) failures.push(`${kind}: the stream of request ${requestId} was cut off`);
    }
    const again = (["ai", "web"] as const).map((target) => {
      const ms = outageMs(answers, { span, target });
      if (ms === undefined) failures.push(`${kind}: no call of ${target} succeeded again`);
      return `${target} ${((ms ?? Number.NaN) / 1_000).toFixed(1)} s`;
    });
    return `${kind}: ${again.join(", ")}, ${calls.filter(hasFailed).length} of ${calls.length} calls failed, ${inProgress.length} streams in progress, ${lost.length} runs lost`;
  });
  return verdict("a lost primary costs seconds", { figures: figures.join("; "), failures });
}
