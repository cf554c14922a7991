const units = [
  ["year", 365 * 24 * 60 * 60],
  ["month", 30 * 24 * 60 * 60],
  ["week", 7 * 24 * 60 * 60],
  ["day", 24 * 60 * 60],
  ["hour", 60 * 60],
  ["minute", 60],
] as const;

const words = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** A time as people say it, with the exact one on hover. For pages that are not hydrated: it is true when they are sent. */
export function RelativeTime({ at }: { at: string }) {
  const time = new Date(at);
  const exact = time.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium", timeZone: "UTC" });
  return (
    <time dateTime={at} title={`${exact} UTC`}>
      {relative(Math.round((time.getTime() - Date.now()) / 1000))}
    </time>
  );
}

function relative(seconds: number): string {
  const [unit, length] = units.find(([, atLeast]) => Math.abs(seconds) >= atLeast) ?? [];
  return unit ? words.format(Math.round(seconds / length), unit) : "just now";
}
