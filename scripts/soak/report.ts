import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Verdict } from "./audit/verdict.ts";
import type { Span } from "./faults/spans.ts";
import { recoveryMs } from "./faults/spans.ts";
import type { Journal } from "./journal.ts";
import type { Sampler } from "./samples.ts";

const mostShown = 8;

/** Returns the line that is printed every ten seconds. */
export function progressLine(
  journal: Journal,
  { elapsedMs, spans }: { elapsedMs: number; spans: readonly Span[] },
): string {
  const clock = `${String(Math.floor(elapsedMs / 60_000)).padStart(2, "0")}:${String(Math.floor(elapsedMs / 1_000) % 60).padStart(2, "0")}`;
  const { calls = 0, ...others } = Object.fromEntries(journal.counts);
  const told = Object.entries(others).map(([what, count]) => `${what} ${count}`);
  const down = spans.filter(({ until }) => until === null).map(({ kind }) => kind);
  return `[${clock}] calls ${calls}, ${told.join(", ")}${down.length > 0 ? ` · now ${down.join(", ")}` : ""}`;
}

/** Formats the audit as text: one line per check, followed by the check's first failures. */
export function renderVerdicts(verdicts: readonly Verdict[]): string {
  const width = Math.max(...verdicts.map(({ check }) => check.length));
  return verdicts
    .flatMap(({ check, ok, figures, failures }) => [
      `${ok ? "pass" : "FAIL"}  ${check.padEnd(width)}  ${figures}`,
      ...failures.slice(0, mostShown).map((failure) => `        ${failure}`),
      ...(failures.length > mostShown ? [`        … and ${failures.length - mostShown} more, in the report`] : []),
    ])
    .join("\n");
}

/** Writes the full report as JSON. @returns its path */
export async function writeReport(
  directory: string,
  {
    seed,
    seconds,
    verdicts,
    spans,
    journal,
    sampler,
  }: {
    seed: number;
    seconds: number;
    verdicts: readonly Verdict[];
    spans: readonly Span[];
    journal: Journal;
    sampler: Sampler;
  },
): Promise<string> {
  await mkdir(directory, { recursive: true });
  const file = path.join(directory, `soak-${seed}.json`);
  const report = {
    seed,
    seconds,
    recoveryAllowanceMs: recoveryMs,
    counts: Object.fromEntries(journal.counts),
    verdicts,
    spans,
    failedCalls: journal.answers.filter(({ status, left }) => (status === null ? !left : status >= 500)),
    samples: sampler.samples,
    connections: sampler.connections,
  };
  await writeFile(file, `${JSON.stringify(report, null, 1)}\n`);
  return file;
}
