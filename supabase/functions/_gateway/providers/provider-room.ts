import type { RunRoute } from "../database/database.ts";
import { startTimeLimit } from "../http/time-limit.ts";
import type { ProviderCall } from "./provider.ts";
import { ProviderFailure } from "./provider-failure.ts";

/** How long a call waits for room at a limited provider if it has no other route. */
const maxWaitMs = 5_000;

/**
 * Takes a call from the limits of its routes' providers. A limit is shared by all processes, through the database. A
 * call that was taken but not made stays taken.
 */
export function createProviderRoom({
  routes,
  endpoint,
  takeCall,
  clientLeft,
  deadline,
  now,
}: Pick<ProviderCall, "routes" | "endpoint" | "takeCall" | "clientLeft" | "deadline" | "now">) {
  /** When the routes without room have some, in milliseconds; null if the call alone exceeds a limit. */
  const waits = new Map<RunRoute, number | null>();

  return {
    /** Returns whether the call may be sent to a limited route. If no other route is left, waits until it may. */
    async take(route: RunRoute): Promise<boolean> {
      // Counting tokens has limits of its own (https://docs.anthropic.com/en/docs/build-with-claude/token-counting).
      if (endpoint === "count_tokens") return true;
      const isLast = routes.length === 1 || waits.has(route);
      const wait_ms = isLast ? Math.max(Math.min(maxWaitMs, Math.floor(deadline - now())), 0) : 0;
      const { taken, wait_ms: waitMs } = await takeCall({ provider: route.provider, wait_ms });
      if (!taken) {
        waits.set(route, waitMs);
        return false;
      }
      waits.delete(route);
      if (waitMs) await wait(waitMs, clientLeft);
      return true;
    },
    /** Returns the route without room that has some soonest, if the call may wait for it. */
    nextRoom(): RunRoute | undefined {
      const open = [...waits].filter(([, waitMs]) => waitMs !== null && waitMs <= maxWaitMs);
      const [soonest] = open.sort(([, one], [, other]) => Number(one) - Number(other));
      return soonest?.[0];
    },
    /** Returns the failure of a call for which a provider had no room. */
    failure(): ProviderFailure | undefined {
      if (waits.size === 0) return undefined;
      const known = [...waits.values()].filter((waitMs) => waitMs !== null);
      const retryAfterSeconds = known.length > 0 ? Math.max(Math.ceil(Math.min(...known) / 1_000), 1) : undefined;
      return new ProviderFailure("rate_limited", { mayHaveCharged: false, retryAfterSeconds });
    },
  };
}

/** Waits, but not for a client that has left. */
function wait(waitMs: number, clientLeft: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const limit = startTimeLimit(waitMs, end);
    function end(): void {
      limit.end();
      clientLeft.removeEventListener("abort", end);
      resolve();
    }
    clientLeft.addEventListener("abort", end);
    if (clientLeft.aborted) end();
  });
}
