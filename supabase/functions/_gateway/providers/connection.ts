import type { CallUse } from "../runs/run-cost.ts";
import { startTimeLimit } from "../time-limit.ts";
import { ClientLeft, ProviderFailure } from "./provider-failure.ts";
import { ConnectTimeout } from "./reachable.ts";

/** A running request to a provider. */
export type Connection = ReturnType<typeof openConnection>;

/** The abort reason of closed connections. Shared, because it carries no details. */
const over = new Error("the connection is closed");

/**
 * Tracks a request to a provider: its time limits, its client, and the reason why it ended.
 * @param options.deadline the time by which the request must end, on the clock of `now`
 * @param options.estimate returns the estimated usage of a request that exceeds a time limit
 */
export function openConnection(
  clientLeft: AbortSignal,
  { now, deadline, estimate }: { now: () => number; deadline: number; estimate: () => CallUse },
) {
  let controller: AbortController | undefined;
  let closed = false;
  let timedOut = false;
  let left = false;
  const limit = startTimeLimit(deadline - now(), () => {
    timedOut = true;
    close();
  });
  let abandon = () => {};
  const leave = () => {
    left = true;
    close();
  };
  clientLeft.addEventListener("abort", leave, { once: true });
  if (clientLeft.aborted) leave();

  function close(): void {
    closed = true;
    limit.end();
    clientLeft.removeEventListener("abort", leave);
    controller?.abort(over);
    abandon();
  }

  return {
    close,
    /**
     * Returns a signal that aborts when the connection closes. Created on demand, because non-streamed answers never
     * need it.
     */
    ended(): AbortSignal {
      controller ??= new AbortController();
      if (closed) controller.abort(over);
      return controller.signal;
    },
    /** Sets the function that is called when the connection closes. */
    onClose(act: () => void): void {
      abandon = act;
      if (closed) act();
    },
    /** Keeps the request running even if the client disconnects later. */
    outliveClient(): void {
      clientLeft.removeEventListener("abort", leave);
    },
    /** Limits the next step to `limitMs`, or to the remaining time if that is shorter. */
    expectWithin(limitMs: number): void {
      if (!closed) limit.restart(Math.min(deadline - now(), limitMs));
    },
    /** @throws Error if the connection is already closed */
    assertOpen(): void {
      if (closed) throw over;
    },
    /**
     * Closes the connection and returns why the request failed.
     * @param options.sent whether the request may have reached the provider
     */
    explain(cause: unknown, { sent, retryable }: { sent: boolean; retryable: boolean }): Error {
      close();
      if (left) return new ClientLeft();
      const lost = sent ? "connection_lost" : "unreachable";
      const failure = timedOut || cause instanceof ConnectTimeout ? "timeout" : lost;
      // The provider worked on the request until the limit, and may charge for it.
      const use = sent && failure === "timeout" ? estimate() : undefined;
      return new ProviderFailure(failure, { mayHaveCharged: sent, retryable, use, cause });
    },
  };
}
