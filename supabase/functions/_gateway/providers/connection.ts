import { startTimeLimit } from "../time-limit.ts";
import { ClientLeft, ProviderFailure } from "./provider-failure.ts";
import { ConnectTimeout } from "./reachable.ts";

/** One request to a provider while it is under way. */
export type Connection = ReturnType<typeof openConnection>;

/** The reason of a closed connection's signal. One for all connections, since it carries no details. */
const over = new Error("the connection is closed");

/**
 * Ties a request's time limits, its client and its exchange together, and says why it ended.
 * @param options.acceptedBy when the answer must have been accepted
 */
export function openConnection(
  clientLeft: AbortSignal,
  { now, deadline, acceptedBy }: { now: () => number; deadline: number; acceptedBy: number },
) {
  let until = Math.min(deadline, acceptedBy);
  let controller: AbortController | undefined;
  let closed = false;
  let timedOut = false;
  let left = false;
  const limit = startTimeLimit(until - now(), () => {
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
    /** Falls when it is closed; made when it is asked for, which whole answers never do. */
    ended(): AbortSignal {
      controller ??= new AbortController();
      if (closed) controller.abort(over);
      return controller.signal;
    },
    /** What ends with it. */
    onClose(act: () => void): void {
      abandon = act;
      if (closed) act();
    },
    /** From here on it makes no difference to the provider whether the client is there. */
    outliveClient(): void {
      clientLeft.removeEventListener("abort", leave);
    },
    /** Sets the time for the next thing to happen, within what is left in all. */
    expectWithin(limitMs: number): void {
      limit.restart(Math.min(until - now(), limitMs));
    },
    /** Gives an answer that has begun the rest of the time in all. */
    noteAccepted(): void {
      until = deadline;
      if (!closed) limit.restart(until - now());
    },
    /** @throws Error where it is closed already */
    assertOpen(): void {
      if (closed) throw over;
    },
    /**
     * Says why a request failed, and closes it.
     * @param options.sent the request may have reached the provider
     */
    explain(cause: unknown, { sent, retryable }: { sent: boolean; retryable: boolean }): Error {
      close();
      if (left) return new ClientLeft();
      const lost = sent ? "connection_lost" : "unreachable";
      const failure = timedOut || cause instanceof ConnectTimeout ? "timeout" : lost;
      return new ProviderFailure(failure, { mayHaveCharged: sent, retryable, cause });
    },
  };
}
