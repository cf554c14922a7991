const momentPattern =
  /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d{1,9})?)?)? ?(Z|UTC|[+-]\d{2}(?::?\d{2})?)?$/i;
const dayMs = 86_400_000;

/** A point in time as written in files, or a calendar day without a time. */
export type Moment = { day: string; ms: number; isDay: boolean };

/**
 * Reads an ISO 8601 date or time, or BigQuery's variant of it. A time without an offset is UTC. Returns null for any
 * other text.
 */
export function readMoment(text: string): Moment | null {
  const [, year, month, day, hour, minute = "0", second = "0", zone = "Z"] = momentPattern.exec(text) ?? [];
  const date = readCalendarDay(year, month, day);
  if (date === null) return null;
  if (hour === undefined) return { day: date, ms: Date.parse(date), isDay: true };
  if (Number(hour) > 24 || Number(minute) > 59 || Number(second) > 60) return null;
  const seconds = (Number(hour) * 60 + Number(minute)) * 60 + Number(second);
  const ms = Date.parse(date) + seconds * 1_000 - offsetMs(zone);
  return { day: dayOf(ms), ms, isDay: false };
}

/**
 * Reads a day in Azure's formats, MM/DD/YYYY or YYYYMMDD, or the date of an ISO 8601 time. Returns null for any other
 * text.
 */
export function readUsDay(text: string): string | null {
  const [, month, day, year] = /^(\d{1,2})\/(\d{1,2})\/(\d{4})(?: 0?0:00(?::00)?)?$/.exec(text) ?? [];
  if (year) return readCalendarDay(year, month?.padStart(2, "0"), day?.padStart(2, "0"));
  const [, packedYear, packedMonth, packedDay] = /^(\d{4})(\d{2})(\d{2})$/.exec(text) ?? [];
  return packedYear ? readCalendarDay(packedYear, packedMonth, packedDay) : (readMoment(text)?.day ?? null);
}

function readCalendarDay(year = "", month = "", day = ""): string | null {
  const text = `${year}-${month}-${day}`;
  const ms = Date.parse(text);
  return !Number.isNaN(ms) && dayOf(ms) === text ? text : null;
}

function offsetMs(zone: string): number {
  const [, sign, hours, minutes = "0"] = /^([+-])(\d{2}):?(\d{2})?$/.exec(zone) ?? [];
  return hours === undefined ? 0 : (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000;
}

/** Returns the UTC day of a time in milliseconds. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

export function dayBefore(day: string): string {
  return dayOf(Date.parse(day) - dayMs);
}

/** Dates in the Swedish locale have the format of ISO 8601. */
const pacific = new Intl.DateTimeFormat("sv-SE", { timeZone: "America/Los_Angeles", dateStyle: "short" });
const pacificDays = new Map<number, string>();
const hourMs = 3_600_000;
/** Limits the cache's size. Enough for every hour of a few years. */
const maxCachedHours = 50_000;

/** Returns a moment's day in Pacific time, which Google Cloud bills by. A calendar day stays unchanged. */
export function pacificDay({ day, ms, isDay }: Moment): string {
  if (isDay) return day;
  const hour = Math.floor(ms / hourMs);
  const known = pacificDays.get(hour);
  if (known !== undefined) return known;
  if (pacificDays.size >= maxCachedHours) pacificDays.clear();
  const found = pacific.format(ms);
  pacificDays.set(hour, found);
  return found;
}

/** Returns the last calendar day of a time span with an exclusive end. */
export function lastDayBefore(end: Moment, dayIn: (moment: Moment) => string = ({ day }) => day): string {
  return end.isDay ? dayBefore(end.day) : dayIn({ ...end, ms: end.ms - 1, day: dayOf(end.ms - 1) });
}
