import { dayText, exactTimeText, timeText } from "../http/date-text.ts";

const units = [
  ["year", 365 * 24 * 60 * 60],
  ["month", 30 * 24 * 60 * 60],
  ["day", 24 * 60 * 60],
  ["hour", 60 * 60],
  ["minute", 60],
] as const;
// In numbers: "yesterday" would be said of what was two calendar days ago.
const relative = new Intl.RelativeTimeFormat("en");

/**
 * A moment as people say it, with the exact time on hover.
 * @param props.at RFC 3339
 * @param props.now the moment it is told from, of the answer that carries it, so that server and browser agree
 */
export function Moment({ at, now }: { at: string; now: string }) {
  return (
    <time dateTime={at} title={exactTimeText(at)}>
      {momentInWords({ at, now })}
    </time>
  );
}

/** A moment as its date and time, to the second on hover. @param props.at RFC 3339 */
export function ExactTime({ at }: { at: string }) {
  return (
    <time dateTime={at} title={exactTimeText(at)}>
      {timeText(at)}
    </time>
  );
}

/** A day in UTC. @param props.at the day, or its first moment, RFC 3339 */
export function Day({ at }: { at: string }) {
  const day = at.slice(0, 10);
  return (
    <time dateTime={day} title={`${dayText(day)}, UTC`} className="whitespace-nowrap">
      {dayText(day)}
    </time>
  );
}

/** How far a moment is from another, in the largest unit that it fills; rounded it is never 60 minutes, or 24 hours. */
export function momentInWords({ at, now }: { at: string; now: string }): string {
  const seconds = (Date.parse(at) - Date.parse(now)) / 1000;
  const distance = Math.abs(seconds);
  const filled = units.findIndex(([, size]) => distance >= size);
  const [unit, size] = units[filled] ?? ["second", 1];
  if (unit === "second") return "just now";
  const rounded = Math.round(distance / size);
  // Months are of no one length: 30 days are the better words for as many.
  const [above = unit, sizeAbove = size] = unit === "minute" || unit === "hour" ? (units[filled - 1] ?? []) : [];
  const sign = Math.sign(seconds);
  const full = above !== unit && rounded * size >= sizeAbove;
  return full ? relative.format(sign, above) : relative.format(sign * rounded, unit);
}

/** A relative time for pages that are not hydrated, as of when they are sent. */
export function RelativeTime({ at }: { at: string }) {
  return <Moment at={at} now={new Date().toISOString()} />;
}
