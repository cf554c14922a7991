import type { RunRoute } from "../database.ts";
import type { Provider } from "../environment.ts";
import { type ErrorCode, GatewayError } from "../errors.ts";
import type { CallUse, OpenRun } from "../run.ts";
import { startTimeLimit } from "../time-limit.ts";
import { type AnswerBody, bodyOf } from "./answer-body.ts";
import { ConnectTimeout, ensureReachable, noteFailed, noteReached } from "./reachable.ts";

/** design.md, Gateway: time limits of a provider call, in milliseconds. */
export type TimeLimits = { connectMs: number; firstByteMs: number; idleMs: number; totalMs: number };
export const defaultTimeLimits = { connectMs: 5_000, firstByteMs: 60_000, idleMs: 30_000 } as const;

/** A provider's answer from its first byte on. */
export type ProviderAnswer = {
  route: RunRoute;
  contentType: string;
  /** The next bytes; undefined at the end. @throws ProviderFailure */
  read: () => Promise<Uint8Array | undefined>;
  /** Ends the call; the provider sees its client leave. */
  cancel: () => void;
  /** The provider is paid for it all, whoever leaves: read on to the end rather than cancel. */
  drains: boolean;
  /** Falls when the call is over, its time in all being up among the reasons, even while nobody reads. */
  ended: AbortSignal;
  startedAt: number;
  firstByteAt: number;
};

/** Why a provider call came to nothing. */
export class ProviderFailure extends Error {
  readonly code: Extract<ErrorCode, "provider_error" | "provider_timeout" | "invalid_request">;
  /** The provider may have worked for us all the same: nobody should simply try again. */
  readonly mayHaveCharged: boolean;
  /** Another route may do better. */
  readonly retryable: boolean;
  /** What it says it has used all the same. */
  readonly use?: CallUse;

  constructor(options: Pick<ProviderFailure, "code" | "mayHaveCharged" | "retryable" | "use"> & { cause?: unknown }) {
    super(options.code, { cause: options.cause });
    this.name = "ProviderFailure";
    this.code = options.code;
    this.mayHaveCharged = options.mayHaveCharged;
    this.retryable = options.retryable;
    this.use = options.use;
  }

  /** What the client is told of it. */
  toGatewayError(): GatewayError {
    return new GatewayError(this.code, {
      message: this.code === "invalid_request" ? "The model's provider refused this request as invalid." : undefined,
      headers: this.mayHaveCharged ? { "x-should-retry": "false" } : undefined,
    });
  }
}

/** The client has left: neither an answer nor a failure. */
export class ClientLeft extends Error {
  /** What the call that it left used by a guess, where one was made. */
  use?: CallUse;
}

/** What a provider is sent: where below its base URL, and the JSON of it. */
export type ProviderRequest = { path: string; body: string };

export type ProviderCall = {
  routes: readonly RunRoute[];
  providers: ReadonlyMap<string, Provider>;
  requestFor: (route: RunRoute, provider: Provider) => ProviderRequest;
  /** Told the provider as `x-request-id`: a label. */
  requestId: string;
  /** What the steps call it. */
  name: string;
  clientLeft: AbortSignal;
  limits: TimeLimits;
  /** When the whole call must be over, by `now`. */
  deadline: number;
  now: () => number;
  /** Told of a route as the request leaves for it: from then on its provider may charge. */
  onDispatch?: (route: RunRoute) => void;
  /** Told that none of the routes so far has charged, surely, and that another is tried. */
  onUncharged?: () => void;
};

/**
 * Asks a run's routes in order until one gives its first byte: a 429, a 5xx, a timeout or a refused connection moves
 * on to the next. What failed is added to the step trace.
 * @throws ProviderFailure of the last route, which knows whether any may have charged, or ClientLeft
 */
export async function callProvider(call: ProviderCall, addStep: OpenRun["addStep"]): Promise<ProviderAnswer> {
  let failure: unknown;
  let mayHaveCharged = false;
  for (const route of call.routes) {
    const startedAt = call.now();
    try {
      return await ask(call, route);
    } catch (error) {
      if (error instanceof ProviderFailure) mayHaveCharged ||= error.mayHaveCharged;
      failure = error instanceof ProviderFailure ? new ProviderFailure({ ...error, mayHaveCharged }) : error;
      const more = error instanceof ProviderFailure && error.retryable && route !== call.routes.at(-1);
      const status = error instanceof ClientLeft ? "aborted" : "failed";
      addStep({ type: more ? "retry" : "model", name: call.name, status }, startedAt);
      if (!more) throw failure;
      if (!mayHaveCharged) call.onUncharged?.();
    }
  }
  throw failure ?? new GatewayError("service_unavailable");
}

async function ask(call: ProviderCall, route: RunRoute): Promise<ProviderAnswer> {
  const provider = call.providers.get(route.provider);
  if (!provider) throw new GatewayError("service_unavailable");
  const startedAt = call.now();
  const connection = openConnection(call.clientLeft, call);
  let dispatched = false;
  let answer: AnswerBody | undefined;
  try {
    const { path, body } = call.requestFor(route, provider);
    await ensureReachable(provider.baseUrl, {
      limitMs: call.limits.connectMs,
      signal: connection.signal,
      now: call.now,
    });
    dispatched = true;
    if (!call.clientLeft.aborted) call.onDispatch?.(route);
    if (provider.drains) connection.outliveClient();
    connection.expectWithin(call.limits.firstByteMs);
    const response = await fetch(provider.baseUrl + path, {
      method: "POST",
      headers: {
        ...credential[provider.kind](provider.apiKey),
        "content-type": "application/json",
        "accept-encoding": "identity",
        "x-request-id": call.requestId,
      },
      // No text: that Deno would send once more where a connection in use is reset, which may be a second charge.
      body: new Blob([body]),
      redirect: "error",
      signal: connection.signal,
    });
    noteReached(provider.baseUrl, call.now);
    if (!response.ok) {
      connection.close();
      throw statusFailure(response.status);
    }
    answer = bodyOf(response);
    let ahead = await answer.read();
    if (!ahead) throw new ProviderFailure({ code: "provider_error", mayHaveCharged: true, retryable: true });
    const firstByteAt = call.now();
    connection.expectWithin(Number.POSITIVE_INFINITY);
    const { read, cancel } = answer;
    return {
      route,
      contentType: response.headers.get("content-type") ?? "",
      startedAt,
      firstByteAt,
      drains: provider.drains,
      ended: connection.signal,
      cancel() {
        connection.close();
        // Deno now and then misses an abort that falls between two reads, and would let the provider write to its end.
        cancel();
      },
      async read() {
        if (ahead) {
          const value = ahead;
          ahead = undefined;
          return value;
        }
        try {
          connection.expectWithin(call.limits.idleMs);
          const bytes = await read();
          // A client that takes its time is no fault of the provider's: only the time in all runs on.
          connection.expectWithin(Number.POSITIVE_INFINITY);
          if (!bytes) connection.close();
          return bytes;
        } catch (cause) {
          throw connection.explain(cause, { mayHaveCharged: true, retryable: false });
        }
      },
    };
  } catch (cause) {
    if (cause instanceof ProviderFailure) {
      connection.close();
      throw cause;
    }
    noteFailed(provider.baseUrl);
    // An answer that is read at once may have begun.
    if (answer?.atOnce) throw connection.explain(cause, { mayHaveCharged: true, retryable: false });
    // Once the request is on its way, nothing tells whether it arrived, unless there was no connection at all.
    throw connection.explain(cause, { mayHaveCharged: dispatched && !isRefusedConnection(cause), retryable: true });
  }
}

/** How each kind of provider takes its key. */
const credential = {
  openai: (key: string) => ({ authorization: `Bearer ${key}` }),
  gemini: (key: string) => ({ "x-goog-api-key": key }),
} as const satisfies Record<Provider["kind"], (key: string) => Record<string, string>>;

/** Why a call's signal falls, whatever the reason: an error of its own each time would cost more than it tells. */
const over = new Error("the call is over");

/** One provider call's abort signal, with the reason it fell. */
function openConnection(clientLeft: AbortSignal, { now, deadline }: { now: () => number; deadline: number }) {
  const controller = new AbortController();
  let timedOut = false;
  let left = false;
  const limit = startTimeLimit(deadline - now(), () => {
    timedOut = true;
    controller.abort(over);
  });
  const leave = () => {
    left = true;
    controller.abort(over);
  };
  clientLeft.addEventListener("abort", leave, { once: true });
  if (clientLeft.aborted) leave();

  function close(): void {
    limit.end();
    clientLeft.removeEventListener("abort", leave);
    controller.abort(over);
  }

  return {
    signal: controller.signal,
    close,
    /** From here on it makes no difference to the provider whether the client is there. */
    outliveClient(): void {
      clientLeft.removeEventListener("abort", leave);
    },
    /** Sets the time for the next thing to happen, within what is left in all. */
    expectWithin(limitMs: number): void {
      limit.restart(Math.min(deadline - now(), limitMs));
    },
    explain(cause: unknown, options: Pick<ProviderFailure, "mayHaveCharged" | "retryable">): Error {
      close();
      if (left) return new ClientLeft();
      const late = timedOut || cause instanceof ConnectTimeout;
      return new ProviderFailure({ code: late ? "provider_timeout" : "provider_error", ...options, cause });
    },
  };
}

/** A refusal by status: the provider did no work, except where a proxy of its own gave up waiting. */
function statusFailure(status: number): ProviderFailure {
  if (status === 400 || status === 413 || status === 422) {
    return new ProviderFailure({ code: "invalid_request", mayHaveCharged: false, retryable: false });
  }
  const gaveUp = status === 408 || status === 504 || status === 524;
  return new ProviderFailure({
    code: gaveUp ? "provider_timeout" : "provider_error",
    mayHaveCharged: gaveUp,
    retryable: status === 429 || status >= 500 || status === 408,
  });
}

/** fetch has no code for it; Deno and Node say it in the message or the cause. */
function isRefusedConnection(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  const code = typeof cause === "object" && cause !== null && "code" in cause ? cause.code : undefined;
  return code === "ECONNREFUSED" || (error instanceof Error && error.message.includes("Connection refused"));
}
