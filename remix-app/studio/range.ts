import { z } from "zod";
import { utcWindow } from "#shared/utc-time.ts";
import { ourMessages } from "#shared/validation-messages.ts";
import { pageQuery, readPageQuery } from "../http/list-page.ts";
import { problem } from "../http/problem.ts";

/** Named ranges in the URL. */
const rangePresets = ["today", "yesterday", "7d", "30d", "90d", "month", "last-month", "365d"] as const;
export type RangePreset = (typeof rangePresets)[number];

/** A page's date range, a half-open interval of whole UTC days. */
export interface Range {
  /** RFC 3339, midnight UTC. */
  from: string;
  /** RFC 3339, midnight UTC, exclusive. */
  to: string;
  preset: RangePreset | "custom";
  /**
   * The range to compare with: the equally long range just before this one. The current month is compared with the same
   * days of the previous month, and the last month with the whole month before it.
   */
  previous: { from: string; to: string };
  /** The day on which the range was read, in UTC. */
  today: string;
  /** What is wrong with the dates in the URL, or null. If they are invalid, the default range is used. */
  fault: string | null;
}

/** The value of `?range=` for all time. Only some lists accept it. */
export const allTime = "all";

const defaultPreset: RangePreset = "30d";
/** The longest range of one usage request. */
const maxRangeDays = 365;

const dayMs = 24 * 60 * 60 * 1000;
const dateSchema = z.iso.date();
const presetSchema = z.enum(rangePresets);
/** Other years have no data, and some exceed what databases and clocks can handle. */
const yearPattern = /^2\d{3}-/;
const presetDays = { today: 1, "7d": 7, "30d": 30, "90d": 90, "365d": 365 } as const;

/**
 * Reads the range from a URL. `?range=` is a preset's name. `?from=` and `?to=` are the first and the last day. Without
 * them, or if they are invalid, returns the last 30 days.
 */
export function readRange(url: URL, { now }: { now: Date }): Range {
  return { ...parseRange(url, now), today: now.toISOString().slice(0, 10) };
}

type UndatedRange = Omit<Range, "today">;

function parseRange(url: URL, now: Date): UndatedRange {
  const [from, to] = [url.searchParams.get("from") ?? "", url.searchParams.get("to") ?? ""];
  const named = url.searchParams.get("range") ?? "";
  const preset = presetSchema.safeParse(named);
  if (preset.success) return presetRange(preset.data, now);
  if (named === "" && from === "" && to === "") return presetRange(defaultPreset, now);
  const fault = named === "" ? faultOf(from, to) : "The range in the URL isn’t valid.";
  if (fault) return { ...presetRange(defaultPreset, now), fault };
  return rangeOf("custom", { from: Date.parse(from), to: Date.parse(to) + dayMs });
}

/** Returns the date `days` days after a UTC midnight. */
export function dayAfter(midnight: string, days: number): string {
  return new Date(Date.parse(midnight) + days * dayMs).toISOString().slice(0, 10);
}

/**
 * Returns the days of a period of a range, which the range's end may cut off, and whether today is one of them.
 * @param first the period's first day
 * @param days the length of the range's periods
 */
export function periodOf(
  range: Pick<Range, "from" | "to" | "today">,
  { first, days }: { first: string; days: number },
) {
  const [last = first] = [dayAfter(first, days - 1), rangeDays(range).last].sort();
  return { first, last, isInProgress: first <= range.today && range.today <= last };
}

function faultOf(from: string, to: string): string | null {
  if (!dateSchema.safeParse(from).success || !dateSchema.safeParse(to).success)
    return "Enter the first and the last day.";
  if (!yearPattern.test(from) || !yearPattern.test(to)) return "Enter days from 2000 to 2999.";
  const days = (Date.parse(to) - Date.parse(from)) / dayMs + 1;
  if (days < 1) return "The first day can’t be after the last.";
  return days > maxRangeDays ? `A range can have at most ${maxRangeDays} days.` : null;
}

function presetRange(preset: RangePreset, now: Date): UndatedRange {
  const [year, month, day] = [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()];
  const to = Date.UTC(year, month, day + 1);
  if (preset === "month") {
    const from = Date.UTC(year, month);
    const before = Date.UTC(year, month - 1);
    return rangeOf(preset, { from, to, previous: { from: before, to: Math.min(before + (to - from), from) } });
  }
  if (preset === "last-month") {
    const [before, from, end] = [Date.UTC(year, month - 2), Date.UTC(year, month - 1), Date.UTC(year, month)];
    return rangeOf(preset, { from, to: end, previous: { from: before, to: from } });
  }
  if (preset === "yesterday") return rangeOf(preset, { from: to - 2 * dayMs, to: to - dayMs });
  return rangeOf(preset, { from: to - presetDays[preset] * dayMs, to });
}

function rangeOf(
  preset: Range["preset"],
  {
    from,
    to,
    previous = { from: from - (to - from), to: from },
  }: Record<"from" | "to", number> & {
    previous?: Record<"from" | "to", number>;
  },
): UndatedRange {
  return { ...toIsoTimes({ from, to }), preset, previous: toIsoTimes(previous), fault: null };
}

function toIsoTimes({ from, to }: Record<"from" | "to", number>): { from: string; to: string } {
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
}

/** Returns the first and the last day of a range, as used in the URL and date fields. */
export function rangeDays({ from, to }: { from: string; to: string }): { first: string; last: string } {
  return { first: from.slice(0, 10), last: new Date(Date.parse(to) - dayMs).toISOString().slice(0, 10) };
}

/** Returns a page's status. It is 400 for an invalid range, although the page then shows the default range. */
export function rangeStatus(range: Pick<Range, "fault"> | null): { status: number } {
  return { status: range?.fault ? 400 : 200 };
}

/** Returns a file name for a range, or for all time until today. */
export function rangeFileName(name: string, range: { from: string; to: string } | null): string {
  if (!range) return `${name}-until-${new Date().toISOString().slice(0, 10)}`;
  const { first, last } = rangeDays(range);
  return `${name}-${first}-${last}`;
}

/** The paging parameters of lists: `cursor`, and `providers` for the upper list on a page with two lists. */
export const pageParameters: readonly string[] = ["cursor", "providers"];

/**
 * Returns the query with the given parameters changed. An empty value removes a parameter. Also removes the paging
 * parameters, so that lists return to their first page.
 */
export function searchWith(search: string, changes: Record<string, string>): string {
  const params = new URLSearchParams(search);
  for (const name of pageParameters) params.delete(name);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "") params.delete(name);
    else params.set(name, value);
  }
  return `?${params}`;
}

/** The query parameters of a range and a page. */
export const windowQuery = utcWindow.extend(pageQuery.shape);

/** A half-open range, and a page of the entries in it. */
export interface WindowQuery {
  from: string | undefined;
  to: string | undefined;
  limit: number;
  cursor: string | undefined;
}

/**
 * Reads `from`, `to`, `limit` and `cursor`.
 * @throws Response 400 INVALID_REQUEST
 */
export function readWindowQuery(request: Request, { requestId }: { requestId: string }): WindowQuery {
  const { limit, cursor } = readPageQuery(request, { requestId });
  const parsed = utcWindow.safeParse(Object.fromEntries(new URL(request.url).searchParams), ourMessages);
  if (parsed.success) return { from: parsed.data.from, to: parsed.data.to, limit, cursor };
  const issue = parsed.error.issues[0];
  throw problem("INVALID_REQUEST", { requestId, detail: `${String(issue?.path[0])}: ${issue?.message}` });
}

/**
 * Requires a valid range or month for a file. A page can report an invalid one and show the default, but a file cannot.
 * @throws Response 400 INVALID_REQUEST if the URL has no valid range
 */
export function requireValidRange<Found extends Pick<Range, "fault"> | null>(
  range: Found,
  { requestId }: { requestId: string },
): Found {
  if (range?.fault) throw problem("INVALID_REQUEST", { requestId, detail: range.fault });
  return range;
}

/** Reads the range in a file's URL. @throws Response like {@link requireValidRange} */
export function readFileRange(request: Request, context: { requestId: string }): Range {
  return requireValidRange(readRange(new URL(request.url), { now: new Date() }), context);
}
