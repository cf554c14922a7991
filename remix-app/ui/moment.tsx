import { formatDateTime, formatDay, formatExactDateTime } from "../http/date-text.ts";

const units = [
  ["year", 365 * 24 * 60 * 60],
  ["month", 30 * 24 * 60 * 60],
  ["day", 24 * 60 * 60],
  ["hour", 60 * 60],
  ["minute", 60],
] as const;
// Uses numbers, because "yesterday" could mean less than 24 hours ago.
const relativeTimeFormat = new Intl.RelativeTimeFormat("en");

/**
 * Shows a time relative to when the page is sent, with the exact time on hover and on paper. @param props.at RFC 3339
 */
export function RelativeTime({ at }: { at: string }) {
  return (
    <time dateTime={at} title={formatExactDateTime(at)} className="relative-time">
      {formatRelativeTime({ at, now: new Date().toISOString() })}
    </time>
  );
}

/** Shows a date and time, to the second on hover. @param props.at RFC 3339 */
export function ExactTime({ at }: { at: string }) {
  return (
    <time dateTime={at} title={formatExactDateTime(at)}>
      {formatDateTime(at)}
    </time>
  );
}

/** Shows a day in UTC. @param props.at the day, or its start as RFC 3339 */
export function UtcDay({ at }: { at: string }) {
  const day = at.slice(0, 10);
  return (
    <time dateTime={day} title={`${formatDay(day)}, UTC`} className="whitespace-nowrap">
      {formatDay(day)}
    </time>
  );
}

/**
 * Describes the distance between two times in the largest unit that fits. Shows a distance that rounds to 60 minutes as
 * an hour, and a distance that rounds to 24 hours as a day.
 */
export function formatRelativeTime({ at, now }: { at: string; now: string }): string {
  const seconds = (Date.parse(at) - Date.parse(now)) / 1000;
  const distance = Math.abs(seconds);
  const filled = units.findIndex(([, size]) => distance >= size);
  const [unit, size] = units[filled] ?? ["second", 1];
  if (unit === "second") return "just now";
  const rounded = Math.round(distance / size);
  // Months have no fixed length, so 30 days are shown as days.
  const [above = unit, sizeAbove = size] = unit === "minute" || unit === "hour" ? (units[filled - 1] ?? []) : [];
  const sign = Math.sign(seconds);
  const full = above !== unit && rounded * size >= sizeAbove;
  return full ? relativeTimeFormat.format(sign, above) : relativeTimeFormat.format(sign * rounded, unit);
}
