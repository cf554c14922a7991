import { z } from "zod";

/** RFC 3339 in UTC with `Z`, to the microsecond, which is as exact as the database keeps it. */
const exact = /^(?!0000)\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z$/;

/** A moment. */
export const utcTime = z.iso
  .datetime({ error: "Enter a UTC time, such as 2026-01-31T12:00:00Z." })
  .regex(exact, { error: "Enter a UTC time with Z, to the microsecond at most." });

/** What databases read of RFC 3339 too: offsets that clocks have, and no more digits than anyone means. */
const readable = /^(?!0000)\d{4}-[^.]*(\.\d{1,9})?(Z|[+-](0\d|1[0-4]):\d{2})$/;

/** A moment with any offset, as the database reads it. */
export const offsetTime = z.iso.datetime({ offset: true }).refine((text) => readable.test(text));

/** A UTC day. */
export const utcDay = z.iso
  .date({ error: "Enter a day, such as 2026-01-31." })
  .regex(/^(?!0000)/, { error: "Enter a day, such as 2026-01-31." });

/** A range's edge: a moment, or a day for its midnight in UTC. */
const utcEdge = z.union([utcTime, utcDay.transform((day) => `${day}T00:00:00Z`)], {
  error: "Enter a day or a UTC time, such as 2026-01-31 or 2026-01-31T12:00:00Z.",
});

/** A window of time, half-open. */
export const utcWindow = z.object({ from: utcEdge.optional(), to: utcEdge.optional() });

/** A moment as the database writes it, in UTC with `Z`: how answers have it. */
export const utcText = z.coerce
  .date()
  .transform((time) => time.toISOString())
  .pipe(z.iso.datetime());

/** The same to the microsecond, for what lists are ordered by. */
export const exactUtcText = offsetTime
  .transform((text) => (/(Z|[+-]00:00)$/.test(text) ? text.replace(/[+-]00:00$/, "Z") : new Date(text).toISOString()))
  .pipe(z.iso.datetime());
