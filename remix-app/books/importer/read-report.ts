import { ZodError } from "zod";
import { collectCosts } from "../../studio/costs/files/collect-costs.ts";
import { type ReadLine, UnreadableCostFile } from "../../studio/costs/files/cost-file.ts";
import { dayOf } from "../../studio/costs/files/read-day.ts";
import type { CostPage, CostProvider, DayRange } from "./cost-provider.ts";
import { FailedReport, requestPage } from "./request-page.ts";

/** A provider whose key this server has. */
export type CostSource = { provider: CostProvider; key: string; baseUrl: string };

/**
 * The days that a provider answered completely, from the first requested day without a gap. `end` is the first day that
 * is missing.
 */
export type CostReport = {
  days: { day: string; lines: ReadLine[] }[];
  end: string;
  /** Why the report is incomplete. */
  failure?: FailedReport;
};

const maxPages = 100;
const dayMs = 86_400_000;
/**
 * How long after its end a day is complete. OpenRouter: "wait for ~30 minutes after the UTC boundary", because a request
 * counts for the day on which it began.
 */
const settleMs = 30 * 60_000;

/** Returns the first UTC day that is not complete at a time. */
export function incompleteDay(now: Date): string {
  return dayOf(now.getTime() - settleMs);
}

export function addDays(day: string, days: number): string {
  return dayOf(Date.parse(day) + days * dayMs);
}

export function laterDay(one: string, other: string): string {
  return one < other ? other : one;
}

/**
 * Reads a provider's daily costs page by page. Never returns a day that has not ended by the provider's clock, or a day
 * that follows one without an answer or with two different answers. What was read before a failure is returned with it.
 */
export async function readReport(
  { provider, key, baseUrl }: CostSource,
  { from, to, signal, timeoutMs }: DayRange & { signal: AbortSignal; timeoutMs?: number },
): Promise<CostReport> {
  const read = new Map<string, ReadLine[]>();
  const disputed = new Set<string>();
  const cursors = new Set<string>();
  let today = from;
  let failure: FailedReport | undefined;
  let cursor: string | null = null;
  const { name } = provider;
  const nextMissing = () => {
    let day = from;
    while (day < to && day < today && read.has(day) && !disputed.has(day)) day = addDays(day, 1);
    return day;
  };
  try {
    for (;;) {
      const request = provider.request({ baseUrl, key }, { from, to, cursor });
      const { page, now } = await requestPage(request, { provider, signal, timeoutMs });
      today = incompleteDay(now);
      const { days, hasMore, next } = convertPage(page, { provider, today });
      for (const { day, lines } of days) {
        if (day < from || day >= to) continue;
        const known = read.get(day);
        if (known && contentOf(known) !== contentOf(lines)) disputed.add(day);
        read.set(day, lines);
      }
      const isComplete = nextMissing() >= to;
      if (!hasMore && (next === null || isComplete)) break;
      if (next === null) throw new FailedReport(`${name} announces more days and names no next page.`);
      if (cursors.has(next)) throw new FailedReport(`${name} answered the same page twice.`);
      if (cursors.size >= maxPages) throw new FailedReport(`${name} answered more than ${maxPages} pages.`);
      cursors.add(next);
      cursor = next;
    }
  } catch (error) {
    if (!(error instanceof FailedReport)) throw error;
    failure = error;
  }
  const end = nextMissing();
  if (disputed.has(end)) {
    failure = new FailedReport(
      `${name} states two different costs for ${end}. That day and later ones wait until it states one. Ask the provider, and import them from a file meanwhile.`,
    );
  }
  const days = [...read].map(([day, lines]) => ({ day, lines })).filter(({ day }) => day < end);
  return { days: days.toSorted((one, other) => (one.day < other.day ? -1 : 1)), end, ...(failure && { failure }) };
}

/** @throws FailedReport for anything but a page of daily costs in USD */
function convertPage(
  page: Parameters<CostProvider["readPage"]>[0],
  { provider, today }: { provider: CostProvider; today: string },
): CostPage {
  const { name, settings } = provider;
  try {
    const converted = provider.readPage(page, { today });
    const costs = collectCosts({});
    for (const line of converted.days.flatMap(({ lines }) => lines)) {
      costs.add(line, "data");
      if (!("skipped" in line) && line.currency !== "USD") throw new UnreadableCostFile("The currency is not USD.");
    }
    return converted;
  } catch (error) {
    if (error instanceof UnreadableCostFile) throw describeFault(error, name);
    if (!(error instanceof ZodError)) throw error;
    throw new FailedReport(`${name} answered something that is not a page of daily costs. Check ${settings.url}.`);
  }
}

/** Names the place of a fault, but not the provider's value. */
function describeFault({ message }: UnreadableCostFile, name: string): FailedReport {
  if (/currency/i.test(message)) {
    return new FailedReport(`${name} states costs in another currency than USD. Import these days from a file.`);
  }
  const where = /^data\[\d+\][\w.[\]]*/.exec(message)?.[0] ?? "data";
  return new FailedReport(`${name}’s report has an unexpected value at ${where}. Import these days from a file.`);
}

/** Returns what a day's costs are compared by, in any order. */
function contentOf(lines: readonly ReadLine[]): string {
  const texts = lines.map((line) =>
    JSON.stringify(line, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value)),
  );
  return texts.toSorted().join("\n");
}
