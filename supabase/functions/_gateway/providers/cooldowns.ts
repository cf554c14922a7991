import type { AttemptFailure } from "../../_shared/attempt.ts";
import type { RouteEvent } from "./route-reports.ts";

/**
 * Number of consecutive failures after which a route is set aside. One failure is enough if the route states when to
 * retry.
 */
const failuresBeforeCooldown = 3;
const firstCooldownMs = 30_000;
/** Maximum length of a cooldown. Each failed probe doubles the cooldown up to this maximum. */
const maxCooldownMs = 300_000;

/** Failures caused by the route itself. Other failures depend on the request and don't affect other requests. */
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

/**
 * Whether a route may be called. A `hanging` route made callers wait, so it is called only if there is no other route.
 */
export type RouteState = "open" | "cooling" | "hanging";

type Health = {
  failures: number;
  answeredAt: number;
  /** The length of the current or last cooldown, or 0 while the route works. */
  cooldownMs: number;
  until: number;
  hanging: boolean;
  /** Start time of the call that probes the route. */
  probingSince?: number;
};

/** The result of a failed or abandoned call to a route. */
export type RouteResult = {
  failure: AttemptFailure;
  /** The HTTP status of the answer, if there was one. */
  status?: number | undefined;
  startedAt: number;
  retryAfterSeconds?: number;
  /**
   * Whether the failure doesn't count against the route, because the request may have caused the failure or the call
   * had less than the usual time.
   */
  undecided: boolean;
  /** Whether the client left after waiting at least half of the first-byte limit without receiving a byte. */
  waitedLong?: boolean;
};

export type Cooldowns = ReturnType<typeof createCooldowns>;

/**
 * Creates a circuit breaker for each route, in this process. A route that keeps failing is set aside for 30 s. Then one
 * call probes the route. If the probe fails, the next cooldown is twice as long, up to 5 minutes. A route's key consists
 * of a provider, a model and an endpoint, so a missing endpoint does not affect other endpoints.
 * @param options.note receives each answer, and each failure that counts against its route
 */
export function createCooldowns({
  now,
  note = () => {},
}: {
  now: () => number;
  note?: (key: string, event: RouteEvent) => void;
}) {
  const routes = new Map<string, Health>();

  function healthOf(key: string): Health {
    const known = routes.get(key);
    if (known) return known;
    const fresh: Health = { failures: 0, answeredAt: -1, cooldownMs: 0, until: 0, hanging: false };
    routes.set(key, fresh);
    return fresh;
  }

  return {
    /**
     * Returns `open` if the route may be called. After a cooldown, only one caller gets `open`, and must report the call's
     * result.
     */
    stateOf(key: string): RouteState {
      const health = routes.get(key);
      if (!health || health.cooldownMs === 0) return "open";
      // A probe may hang for as long as a call may take. After another cooldown, the next call probes as well.
      const isProbed = health.probingSince !== undefined && now() - health.probingSince < health.cooldownMs;
      if (health.until > now() || isProbed) return health.hanging ? "hanging" : "cooling";
      health.probingSince = now();
      return "open";
    },
    noteAnswer(key: string): void {
      Object.assign(healthOf(key), {
        failures: 0,
        answeredAt: now(),
        cooldownMs: 0,
        hanging: false,
        probingSince: undefined,
      });
      note(key, "answered");
    },
    /**
     * Records a failed or abandoned call.
     * @returns for how many more milliseconds the route is set aside, or 0
     */
    noteFailure(
      key: string,
      { failure, status, startedAt, retryAfterSeconds, undecided, waitedLong = false }: RouteResult,
    ): number {
      const health = healthOf(key);
      const probed = health.probingSince !== undefined && startedAt >= health.probingSince;
      if (probed) health.probingSince = undefined;
      const waited = failure === "timeout" || waitedLong;
      // A long wait does not count against a route that answered other calls in the meantime.
      const isAlone = waited && health.answeredAt >= startedAt;
      if (undecided || isAlone || !(waitedLong || routeFailures.has(failure))) return 0;
      health.failures += 1;
      const isOver = health.until <= now();
      const opens = retryAfterSeconds !== undefined || health.failures >= failuresBeforeCooldown;
      // Calls already running when the cooldown began do not extend it.
      const begins = opens && (isOver || Boolean(retryAfterSeconds));
      if (begins) {
        const usual = Math.max(firstCooldownMs, (probed ? 2 : 1) * health.cooldownMs);
        const cooldownMs = retryAfterSeconds === undefined ? usual : retryAfterSeconds * 1_000;
        health.cooldownMs = Math.min(cooldownMs, maxCooldownMs);
        health.until = now() + health.cooldownMs;
        health.hanging = waited;
      }
      const cooldownMs = begins ? health.cooldownMs : 0;
      // Of clients that left after a long wait, operators need to know the wait.
      note(key, { failure: waited ? "timeout" : failure, status, cooldownMs });
      return cooldownMs;
    },
    /** Returns the number of routes that are set aside now, by provider: the first word of their keys. */
    countCooling(): Map<string, number> {
      const counts = new Map<string, number>();
      for (const [key, { cooldownMs, until }] of routes) {
        const [provider = ""] = key.split(" ");
        if (cooldownMs > 0 && until > now()) counts.set(provider, (counts.get(provider) ?? 0) + 1);
      }
      return counts;
    },
  };
}
