const units = [
  ["year", 365 * 24 * 60 * 60],
  ["month", 30 * 24 * 60 * 60],
  ["day", 24 * 60 * 60],
  ["hour", 60 * 60],
  ["minute", 60],
] as const;
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const absolute = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" });

/**
 * A moment as people say it, with the exact time on hover.
 * @param props.at RFC 3339
 * @param props.now the moment it is told from, of the answer that carries it, so that server and browser agree
 */
export function Moment({ at, now }: { at: string; now: string }) {
  const seconds = (Date.parse(at) - Date.parse(now)) / 1000;
  const [unit, size] = units.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
  const words = unit === "second" ? "just now" : relative.format(Math.round(seconds / size), unit);
  return (
    <time dateTime={at} title={`${absolute.format(new Date(at))} UTC`}>
      {words}
    </time>
  );
}
