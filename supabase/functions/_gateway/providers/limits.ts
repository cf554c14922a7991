/** Time limits of a call and of its requests to providers, in milliseconds. */
export type TimeLimits = {
  connectMs: number;
  /** How long a provider may take until its first byte. */
  firstByteMs: number;
  /** How long a provider may be silent after its first byte. */
  idleMs: number;
  /** How long the whole call may take. */
  totalMs: number;
  /** How long a call may take whose response can't begin before the answer is complete, such as speech. */
  wholeAnswerMs: number;
  /** When a response begins even without an answer, and the longest silence that its client sees after that. */
  beginMs: number;
  keepaliveMs: number;
  /** How long usage and the end of a stream may take after its last finish reason, and if the client has left then. */
  endMs: number;
  leftMs: number;
};
/** The limits that a provider's settings or a route may override. */
export type OwnLimits = Partial<Pick<TimeLimits, "firstByteMs" | "idleMs" | "totalMs">>;

/** The wall-clock time that hosted Supabase gives a function. It waits 150 s for the first byte of a response. */
const hostedTotalSeconds = 400;
const hostedFirstByteMs = 140_000;
const defaultTotalSeconds = 3_600;
/** Reasoning models may think for many minutes before they send a byte (https://github.com/openai/codex/issues/39771). */
const silenceMs = 600_000;
/** The time that a route must leave for the next route. */
const nextRouteMs = 40_000;

/**
 * Returns all time limits, which follow from the longest call. Load balancers usually close connections that were idle
 * for 60 s (AWS, Google Cloud, nginx), so clients hear from a call after 20 s and then every 15 s.
 * @param options.totalSeconds the longest call; by default what the platform allows, otherwise an hour
 * @param options.isHosted whether hosted Supabase runs the functions
 */
export function timeLimitsOf({
  totalSeconds,
  isHosted,
}: {
  totalSeconds?: number | undefined;
  isHosted: boolean;
}): TimeLimits {
  const totalMs = isHosted
    ? Math.min(totalSeconds ?? hostedTotalSeconds, hostedTotalSeconds) * 1_000
    : (totalSeconds ?? defaultTotalSeconds) * 1_000;
  return {
    connectMs: 5_000,
    firstByteMs: Math.min(silenceMs, totalMs),
    idleMs: Math.min(silenceMs, totalMs),
    totalMs,
    wholeAnswerMs: isHosted ? Math.min(hostedFirstByteMs, totalMs) : totalMs,
    beginMs: 20_000,
    keepaliveMs: 15_000,
    endMs: Math.min(30_000, totalMs),
    leftMs: 2_000,
  };
}

/**
 * Returns the limits of one request. The route's limits override the provider's, which override the gateway's, but the
 * total time never exceeds the gateway's. A route with another one after it leaves time for that one. An answer that
 * isn't streamed has no first byte until it is complete, so shorter limits of the route or provider don't apply to it.
 */
export function chooseRequestLimits(
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
  const firstByteMs = own.firstByteMs ?? limits.firstByteMs;
  const idleMs = own.idleMs ?? limits.idleMs;
  const silentMs = stream ? firstByteMs : Math.max(firstByteMs, idleMs, limits.firstByteMs);
  const availableMs = isLast ? totalMs : Math.max(totalMs - nextRouteMs, totalMs / 2);
  return { ...limits, firstByteMs: Math.min(silentMs, availableMs), idleMs, totalMs };
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
