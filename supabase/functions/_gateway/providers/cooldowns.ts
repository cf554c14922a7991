import type { AttemptFailure } from "../../_shared/attempt.ts";

/** Failures in a row until a route is set aside. One is enough where callers waited for it, or it says when to come back. */
const failuresInARow = 3;
const firstCooldownMs = 30_000;
/** Each failed probe doubles the cooldown, up to this. */
const longestCooldownMs = 300_000;

/** The failures that are the route's own. Errors about a request say nothing about other requests. */
const routeFailures: ReadonlySet<AttemptFailure> = new Set([
  "unreachable",
  "timeout",
  "connection_lost",
  "unauthorized",
  "payment_required",
  "forbidden",
  "not_found",
  "rate_limited",
  "server_error",
  "invalid_answer",
]);

/** Whether a route may be asked: `hanging` is one that made callers wait, to be asked only where there is no other. */
export type RouteState = "open" | "cooling" | "hanging";

type Health = {
  failures: number;
  answeredAt: number;
  /** The length of the cooldown under way or just over; 0 while the route works. */
  cooldownMs: number;
  until: number;
  hanging: boolean;
  /** When the call began that finds out whether the route works again. */
  probingSince?: number;
};

/** What a call learned about a route. */
export type RouteResult = {
  failure: AttemptFailure;
  startedAt: number;
  retryAfterSeconds?: number;
  /** The request may have caused it, or the call had less time than usual. */
  undecided: boolean;
  /** No byte had come after half of the time for the first one, as the client left. */
  waitedLong?: boolean;
};

/**
 * A circuit breaker for each route, for this process. A route that keeps failing is set aside for 30 s; then one call
 * probes it, and the next cooldown is twice as long, up to 5 minutes, if that fails too. A key names a provider, a model
 * and an endpoint, so a missing endpoint closes no other.
 */
export type Cooldowns = {
  /** Says whether to ask a route. One call gets `open` after a cooldown, and must report what came of it. */
  stateOf: (key: string) => RouteState;
  noteAnswer: (key: string) => void;
  /** @returns how long the route is set aside from now, in milliseconds; 0 if it is not */
  noteFailure: (key: string, result: RouteResult) => number;
};

export function createCooldowns({ now }: { now: () => number }): Cooldowns {
  const routes = new Map<string, Health>();

  function healthOf(key: string): Health {
    const known = routes.get(key);
    if (known) return known;
    const fresh = { failures: 0, answeredAt: -1, cooldownMs: 0, until: 0, hanging: false };
    routes.set(key, fresh);
    return fresh;
  }

  return {
    stateOf(key) {
      const health = routes.get(key);
      if (!health || health.cooldownMs === 0) return "open";
      if (health.until > now() || health.probingSince !== undefined) return health.hanging ? "hanging" : "cooling";
      health.probingSince = now();
      return "open";
    },
    noteAnswer(key) {
      Object.assign(healthOf(key), {
        failures: 0,
        answeredAt: now(),
        cooldownMs: 0,
        hanging: false,
        probingSince: undefined,
      });
    },
    noteFailure(key, { failure, startedAt, retryAfterSeconds, undecided, waitedLong = false }) {
      const health = healthOf(key);
      const probed = health.probingSince !== undefined && startedAt >= health.probingSince;
      if (probed) health.probingSince = undefined;
      const isTimeout = failure === "timeout";
      const waited = isTimeout || waitedLong;
      // A wait says little about a route that answered other calls meanwhile.
      const isAlone = waited && health.answeredAt >= startedAt;
      if (undecided || isAlone || !(waitedLong || routeFailures.has(failure))) return 0;
      health.failures += 1;
      const isOver = health.until <= now();
      const opens = isTimeout || retryAfterSeconds !== undefined || health.failures >= failuresInARow;
      // Calls that were under way when the cooldown began do not lengthen it.
      if (!opens || !(isOver || retryAfterSeconds)) return 0;
      const usual = Math.max(firstCooldownMs, (probed ? 2 : 1) * health.cooldownMs);
      const cooldownMs = retryAfterSeconds === undefined ? usual : retryAfterSeconds * 1_000;
      health.cooldownMs = Math.min(cooldownMs, longestCooldownMs);
      health.until = now() + health.cooldownMs;
      health.hanging = waited;
      return health.cooldownMs;
    },
  };
}
