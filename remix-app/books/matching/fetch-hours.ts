import { ZodError } from "zod";
import type { JsonObject } from "../../studio/costs/files/json-values.ts";
import { addDays, type CostSource, incompleteDay } from "../importer/read-report.ts";
import { FailedReport, requestPage } from "../importer/request-page.ts";
import { type HourCounts, type HourPage, type HourReport, hourReports, type ReportedHour } from "./hour-report.ts";

/** More than a day of 24 hours needs. */
const maxPages = 24;
const pageTimeoutMs = 10_000;
/** A person waits for the answer. */
const reportTimeoutMs = 25_000;
const hoursOfDay = 24;

/**
 * Asks a provider what it counted in the hours of a UTC day, in any order. Never returns a part of the day.
 * @throws FailedReport if the provider fails, has not ended the day by its own clock, or does not answer each hour once
 */
export async function fetchHours(
  source: CostSource,
  { day, timeoutMs = pageTimeoutMs }: { day: string; timeoutMs?: number },
): Promise<HourCounts[]> {
  const { id, name } = source.provider;
  const report = hourReports[id];
  if (!report) throw new Error(`${id} states no hours`);
  requireEnded(new Date(), { day, name });
  const signal = AbortSignal.timeout(reportTimeoutMs);
  const counts: HourCounts[] = [];
  for (const path of report.paths) {
    const hours = await fetchPath(source, { report, path, day, signal, timeoutMs });
    counts.push(...hours.flatMap((hour) => hour.counts));
  }
  return counts;
}

async function fetchPath(
  { provider, key, baseUrl }: CostSource,
  {
    report,
    path,
    day,
    ...limits
  }: { report: HourReport; path: string; day: string; signal: AbortSignal; timeoutMs: number },
): Promise<ReportedHour[]> {
  const { name } = provider;
  const hours = new Map<string, ReportedHour>();
  const cursors = new Set<string>();
  let cursor: string | null = null;
  for (;;) {
    const request = report.request({ baseUrl, key }, { path, from: day, to: addDays(day, 1), cursor });
    const answer = await requestPage(request, { provider, ...limits }).catch((error: unknown) => {
      if (!limits.signal.aborted) throw error;
      throw new FailedReport(`${name} did not answer within ${reportTimeoutMs / 1_000} seconds. Ask again.`);
    });
    requireEnded(answer.now, { day, name });
    const page = convertPage(answer.page, { report, source: provider });
    for (const each of page.hours) {
      if (!each.hour.startsWith(day)) continue;
      const known = hours.get(each.hour);
      if (known && contentOf(known) !== contentOf(each)) {
        throw new FailedReport(`${name} states two different counts for ${each.hour.slice(11, 16)} UTC. Ask again.`);
      }
      hours.set(each.hour, each);
    }
    if (!page.hasMore) break;
    if (page.next === null) throw new FailedReport(`${name} announces more hours and names no next page.`);
    if (cursors.has(page.next)) throw new FailedReport(`${name} answered the same page twice.`);
    if (cursors.size >= maxPages) throw new FailedReport(`${name} answered more than ${maxPages} pages.`);
    cursors.add(page.next);
    cursor = page.next;
  }
  if (hours.size < hoursOfDay) {
    throw new FailedReport(`${name} answered ${hours.size} of the day’s ${hoursOfDay} hours. Ask again later.`);
  }
  return [...hours.values()];
}

function requireEnded(now: Date, { day, name }: { day: string; name: string }): void {
  if (day < incompleteDay(now)) return;
  throw new FailedReport(`The day is not complete at ${name}. Ask half an hour after its end in UTC.`);
}

/** @throws FailedReport for anything but a page of hourly usage, without the provider's values */
function convertPage(
  page: JsonObject,
  { report, source: { name, settings } }: { report: HourReport; source: CostSource["provider"] },
): HourPage {
  try {
    return report.readPage(page);
  } catch (error) {
    if (!(error instanceof ZodError)) throw error;
    throw new FailedReport(`${name} answered something that is not a page of hourly usage. Check ${settings.url}.`);
  }
}

/** Returns what an hour's counts are compared by, in any order. */
function contentOf({ counts }: ReportedHour): string {
  return counts
    .map((each) => JSON.stringify(each))
    .toSorted()
    .join("\n");
}
