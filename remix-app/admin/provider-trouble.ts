import { z } from "zod";
import { formatDateTime, formatDay } from "../http/date-text.ts";
import { runAttempt } from "../studio/runs/run-schema.ts";

/** The states of a route, as `ai.route_state` decides them. */
export const routeState = z.enum(["skipped", "failing", "working", "quiet"]);

export const troubledRoute = runAttempt.pick({ failure: true, status: true }).extend({
  /** The provider's name of the model. */
  model: z.string(),
  endpoint: z.string(),
  state: routeState.extract(["skipped", "failing"]),
  since: z.string(),
  /** Null unless the route is skipped. */
  skippedUntil: z.string().nullable(),
});

/** What callers got whose calls failed at a provider. */
const callers = z.object({
  calls: z.number(),
  answeredElsewhere: z.number(),
  failed: z.array(z.object({ status: z.number().nullable(), code: z.string(), calls: z.number() })),
});

/** The providers with an outage or with routes that fail now, at most ten, as `private.read_provider_trouble` returns them. */
export const providerTroubleSchema = z.array(
  z.object({
    providerId: z.string(),
    /** Null if no outage is recorded. */
    outageSince: z.string().nullable(),
    routes: z.array(troubledRoute),
    callers,
  }),
);
export type ProviderTrouble = z.infer<typeof providerTroubleSchema>[number];

/** The text colors of the states. */
export const stateTones = {
  skipped: "text-bad",
  failing: "text-bad",
  working: undefined,
  quiet: "text-muted",
} as const;

const hourMs = 3_600_000;
export const noRecentCalls = "No recent calls";

/** Describes a route's state: "Skipped until 19:18:55 UTC". */
export function describeRouteState({
  state,
  since,
  skippedUntil,
  failedAt = null,
  now = new Date(),
}: {
  state: z.infer<typeof routeState>;
  since: string | null;
  skippedUntil: string | null;
  failedAt?: string | null;
  now?: Date;
}): string {
  if (state === "skipped" && skippedUntil) return `Skipped until ${formatSecond(skippedUntil, now)}`;
  if ((state === "failing" || state === "skipped") && since) return `Failing since ${formatMinute(since, now)}`;
  if (state === "working") return "Working";
  const hasFailed = failedAt !== null && now.getTime() - Date.parse(failedAt) < hourMs;
  return hasFailed ? "No recent answer" : noRecentCalls;
}

/** Describes since when a provider is in trouble: "Outage since 19:12 UTC". Null without an outage. */
export function describeOutage({ outageSince }: Pick<ProviderTrouble, "outageSince">, now = new Date()): string | null {
  return outageSince === null ? null : `Outage since ${formatMinute(outageSince, now)}`;
}

/** Formats a time of today as "19:12 UTC", and others with their day. */
function formatMinute(at: string, now: Date): string {
  const text = formatDateTime(at);
  return formatDay(at) === formatDay(now) ? text.slice(formatDay(at).length + 2) : text;
}

/** Formats a time like `formatMinute`, to the second. */
function formatSecond(at: string, now: Date): string {
  const seconds = String(new Date(at).getUTCSeconds()).padStart(2, "0");
  return formatMinute(at, now).replace(" UTC", `:${seconds} UTC`);
}
