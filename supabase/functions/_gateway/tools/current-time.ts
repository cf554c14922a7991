import { z } from "zod";
import type { ServerTool } from "./server-tool.ts";

const input = z.strictObject({ timezone: z.string().max(64).nullish() });

/** The tool that returns the time of the run. */
export const currentTime: ServerTool<typeof input> = {
  name: "current_time",
  description:
    "Tells the current date and time, in UTC and in a time zone where one is named (IANA, like Europe/Rome).",
  parameters: {
    type: "object",
    properties: { timezone: { type: "string", examples: ["Europe/Rome"] } },
    required: [],
    additionalProperties: false,
  },
  input,
  run({ timezone }, { time }) {
    const zone = timezone || "UTC";
    return { utc: time.toISOString(), timezone: zone, local: localTime(time, zone) };
  },
};

/** Formats a time by RFC 3339, with the zone's offset at that moment. @throws Error for an unknown zone */
function localTime(time: Date, timeZone: string): string {
  let parts: Record<string, string>;
  try {
    const format = new Intl.DateTimeFormat("en-CA", {
      timeZone,
      hourCycle: "h23",
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      timeZoneName: "longOffset",
    });
    parts = Object.fromEntries(format.formatToParts(time).map(({ type, value }) => [type, value]));
  } catch {
    throw new Error("Unknown time zone.");
  }
  const offset = parts.timeZoneName?.replace("GMT", "") || "+00:00";
  return `${parts.year}-${parts.month}-${parts.day}T${parts.hour}:${parts.minute}:${parts.second}${offset}`;
}
