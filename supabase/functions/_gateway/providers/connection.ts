import { startTimeLimit } from "../http/time-limit.ts";
import type { CallUse } from "../usage/usage.ts";
import { ClientLeft, ProviderFailure } from "./provider-failure.ts";
import { ConnectTimeout } from "./reachable.ts";

/** A running request to a provider. */
export type Connection = ReturnType<typeof openConnection>;

/** Whether a request may still be answered, or what ended it: its time limit, its client, or anything else. */
type State = "open" | "timeout" | "client_left" | "closed";

/** The abort reason of closed connections. Shared, because it carries no details. */
const closedError = new Error("the connection is closed");

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
  let state: State = "open";
  const limit = startTimeLimit(deadline - now(), () => close("timeout"));
  let abandon = () => {};
  const leave = () => close("client_left");
  clientLeft.addEventListener("abort", leave, { once: true });
  if (clientLeft.aborted) leave();

  function close(reason: Exclude<State, "open">): void {
    if (state === "open") state = reason;
    limit.end();
    clientLeft.removeEventListener("abort", leave);
    controller?.abort(closedError);
    abandon();
  }

  return {
    close: () => close("closed"),
    /**
     * Returns a signal that aborts when the connection closes. Created on demand, because non-streamed answers never
     * need it.
     */
    ended(): AbortSignal {
      controller ??= new AbortController();
      if (state !== "open") controller.abort(closedError);
      return controller.signal;
    },
    /** Sets the function that is called when the connection closes. */
    onClose(act: () => void): void {
      abandon = act;
      if (state !== "open") act();
    },
    /** Keeps the request running even if the client disconnects later. */
    outliveClient(): void {
      clientLeft.removeEventListener("abort", leave);
    },
    /** Limits the next step to `limitMs`, or to the remaining time if that is shorter. */
    expectWithin(limitMs: number): void {
      if (state === "open") limit.restart(Math.min(deadline - now(), limitMs));
    },
    /** @throws Error if the connection is already closed */
    assertOpen(): void {
      if (state !== "open") throw closedError;
    },
    /**
     * Closes the connection and returns why the request failed.
     * @param options.sent whether the request may have reached the provider
     */
    explain(cause: unknown, { sent, retryable }: { sent: boolean; retryable: boolean }): Error {
      close("closed");
      if (state === "client_left") return new ClientLeft();
      const lossFailure = sent ? "connection_lost" : "unreachable";
      const failure = state === "timeout" || cause instanceof ConnectTimeout ? "timeout" : lossFailure;
      // The provider worked on the request until the limit, and may charge for it.
      const use = sent && failure === "timeout" ? estimate() : undefined;
      return new ProviderFailure(failure, { mayHaveCharged: sent, retryable, use, cause });
    },
  };
}
