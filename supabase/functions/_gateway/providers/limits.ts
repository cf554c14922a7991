/**
 * Time limits of a provider call, in milliseconds. Some apply to one route, `routesMs` applies to all routes together,
 * and `totalMs` applies to the whole call.
 */
export type TimeLimits = {
  connectMs: number;
  firstByteMs: number;
  routesMs: number;
  idleMs: number;
  totalMs: number;
};
/** The limits that a provider's settings or a route may override. */
export type OwnLimits = Partial<Pick<TimeLimits, "firstByteMs" | "idleMs" | "totalMs">>;

/** The platform waits at most 150 s for a function's first byte. */
export const firstByteWithinMs = 140_000;
/** The longest wall-clock time that Supabase gives a function. */
export const mostTotalSeconds = 400;
/** The time that a route of a non-streamed call must leave for the next route. */
const nextRouteMs = 40_000;
export const defaultTimeLimits = {
  connectMs: 5_000,
  firstByteMs: 60_000,
  routesMs: firstByteWithinMs,
  idleMs: 30_000,
} as const;

/**
 * Returns the limits of one request. The route's limits override the provider's, which override the defaults, but the
 * total time never exceeds the gateway's. A non-streamed answer has no first byte until it is complete, so its
 * first-byte limit depends on the total time.
 */
export function limitsFor(
  limits: TimeLimits,
  {
    stream,
    provider,
    route,
    isLast,
  }: {
    stream: boolean;
    provider: { timeLimits?: OwnLimits };
    route: { time_limits?: RouteLimits };
    isLast: boolean;
  },
): TimeLimits {
  const own = { ...provider.timeLimits, ...inMilliseconds(route.time_limits) };
  const totalMs = Math.min(own.totalMs ?? limits.totalMs, limits.totalMs);
  const availableMs = Math.min(limits.routesMs, limits.totalMs);
  const wholeMs = isLast ? availableMs : Math.max(availableMs - nextRouteMs, availableMs / 2);
  return {
    ...limits,
    firstByteMs: stream ? (own.firstByteMs ?? limits.firstByteMs) : Math.min(wholeMs, totalMs),
    idleMs: own.idleMs ?? limits.idleMs,
    totalMs,
  };
}

/** A route's own limits in seconds, as stored in the database. */
type RouteLimits = { first_byte?: number; idle?: number; total?: number };

function inMilliseconds({ first_byte, idle, total }: RouteLimits = {}): OwnLimits {
  return {
    ...(first_byte === undefined ? {} : { firstByteMs: first_byte * 1_000 }),
    ...(idle === undefined ? {} : { idleMs: idle * 1_000 }),
    ...(total === undefined ? {} : { totalMs: total * 1_000 }),
  };
}
