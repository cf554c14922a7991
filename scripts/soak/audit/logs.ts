import type { Span } from "../faults/spans.ts";
import { recoveryMs } from "../faults/spans.ts";
import { type Verdict, verdict } from "./verdict.ts";

/** A line of a service's log: `2026-01-01T00:00:00.000Z text`. */
export type LogLine = { service: string; at: number; text: string };

/** Words in a log that indicate a bug, even during an outage. */
const defects =
  /\b(TypeError|ReferenceError|RangeError|SyntaxError|AssertionError|uncaught\w*|unhandled\w*|panicked|PANIC|deadlock detected|heap out of memory)\b/i;
/** Node's message for a failed connection. */
const noAnswer = /TypeError: fetch failed/g;
/** Matches an unhandled error with any message. */
const unthoughtOf = /\b(uncaught|unhandled)/i;
/** Matches what is allowed only during an outage: a failed fetch, a stack trace, or an error. */
const alarms = /^\s+at \S+|"level":"error"|\bFATAL\b|fetch failed/;
/**
 * Matches what Postgres logs about clients that connect while it starts or stops, and about clients that it
 * disconnects.
 */
const ownEnd =
  /the database system is|terminating connection|terminating background|not properly shut down|unexpected EOF|could not (receive|send)/;

/** Checks that no service logged an unhandled error, and that services logged other errors only during outages. */
export function judgeLogs(lines: readonly LogLine[], spans: readonly Span[]): Verdict {
  const failures: string[] = [];
  for (const { service, at, text } of lines) {
    const during = spans.some(
      ({ from, until }) => at >= from && at <= (until ?? Number.POSITIVE_INFINITY) + recoveryMs,
    );
    const isDefect = unthoughtOf.test(text) || (defects.test(text.replaceAll(noAnswer, "")) && !ownEnd.test(text));
    if (isDefect || (alarms.test(text) && !during && !ownEnd.test(text))) {
      failures.push(`${service} ${new Date(at).toISOString()} ${text.slice(0, 300)}`);
    }
  }
  return verdict("no uncaught error in any log", { figures: `${lines.length} lines`, failures });
}

/** Splits a log file into lines; a line without a timestamp gets the time of the previous one. */
export function logLines(service: string, text: string): LogLine[] {
  let at = 0;
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [, time, rest] = /^(\d{4}-\d\d-\d\dT[\d:.]+Z) (.*)$/.exec(line) ?? [];
      if (time) at = Date.parse(time);
      return { service, at, text: rest ?? line };
    });
}
