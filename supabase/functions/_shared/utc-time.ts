import { z } from "zod";

/** Matches RFC 3339 times in UTC with `Z`, to the microsecond, which is the database's precision. */
const exactUtcPattern = /^(?!0000)\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z$/;

export const utcTime = z.iso
  .datetime({ error: "Enter a UTC time, such as 2026-01-31T12:00:00Z." })
  .regex(exactUtcPattern, { error: "Enter a UTC time with Z, to the microsecond at most." });

/** Matches the RFC 3339 times that the database can read: those with a real offset and at most nine decimals. */
const readableTimePattern = /^(?!0000)\d{4}-[^.]*(\.\d{1,9})?(Z|[+-](0\d|1[0-4]):\d{2})$/;

/** A time with any offset, in a format that the database can read. */
export const offsetTime = z.iso.datetime({ offset: true }).refine((text) => readableTimePattern.test(text));

export const utcDay = z.iso
  .date({ error: "Enter a day, such as 2026-01-31." })
  .regex(/^(?!0000)/, { error: "Enter a day, such as 2026-01-31." });

/** One end of a range: a time, or a day, which stands for its midnight in UTC. */
const utcRangeBound = z.union([utcTime, utcDay.transform((day) => `${day}T00:00:00Z`)], {
  error: "Enter a day or a UTC time, such as 2026-01-31 or 2026-01-31T12:00:00Z.",
});

/** A half-open time range. */
export const utcWindow = z.object({ from: utcRangeBound.optional(), to: utcRangeBound.optional() });

/** A time from the database, formatted in UTC with `Z`. */
export const utcText = z.coerce
  .date()
  .transform((time) => time.toISOString())
  .pipe(z.iso.datetime());

/** A time with microseconds, for values by which lists are ordered. */
export const exactUtcText = offsetTime.transform(toExactUtc).pipe(z.iso.datetime());

/** Formats a time with any offset in UTC. Keeps microseconds if the time is in UTC already. */
export function toExactUtc(text: string): string {
  return /(Z|[+-]00:00)$/.test(text) ? text.replace(/[+-]00:00$/, "Z") : new Date(text).toISOString();
}
