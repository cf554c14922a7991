import type { RunRoute } from "../database.ts";
import { type ErrorCode, GatewayError } from "../http/errors.ts";
import type { OpenRun } from "../runs/run.ts";
import type { CallUse } from "../runs/run-cost.ts";
import { startTimeLimit } from "../time-limit.ts";
import { post, type Take } from "./exchange.ts";
import type { Endpoint } from "./kinds/kind.ts";
import type { TimeLimits } from "./limits.ts";
import { NotConnected } from "./not-connected.ts";
import { addressOf } from "./provider-address.ts";
import type { Provider } from "./provider-settings.ts";
import { ConnectTimeout, ensureReachable, noteFailed, noteReached, wasJustReached } from "./reachable.ts";

/** A provider's answer from its first byte on. */
export type ProviderAnswer = {
  route: RunRoute;
  contentType: string;
  /** The next bytes; undefined at the end. @throws ProviderFailure */
  read: () => Promise<Uint8Array | undefined>;
  /** Hands over what comes until `take` has had enough. @returns whether there may be more @throws ProviderFailure */
  pour: (take: Take) => Promise<boolean>;
  /** Ends the call; the provider sees its client leave. */
  cancel: () => void;
  /** The provider is paid for it all, whoever leaves: read on to the end rather than cancel. */
  drains: boolean;
  /**
   * Falls when the call is over, its time in all being up among the reasons, even while nobody reads. Not a getter: an
   * object with one of its own gets a hidden class of its own, which keeps the call until a full collection.
   */
  ended: () => AbortSignal;
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
  /** It answered 404: it lacks the endpoint or the model. */
  readonly isNotFound?: boolean;
  /** What it says it has used all the same. */
  readonly use?: CallUse;

  constructor(
    options: Pick<ProviderFailure, "code" | "mayHaveCharged" | "retryable" | "isNotFound" | "use"> & {
      cause?: unknown;
    },
  ) {
    super(options.code, { cause: options.cause });
    this.name = "ProviderFailure";
    this.code = options.code;
    this.mayHaveCharged = options.mayHaveCharged;
    this.retryable = options.retryable;
    this.isNotFound = options.isNotFound;
    this.use = options.use;
  }

  /** What the client is told of it. */
  toGatewayError(): GatewayError {
    const refused =
      this.code === "invalid_request" ? "The model's provider refused this request as invalid." : undefined;
    const message = this.isNotFound ? "The model's provider has no such endpoint or model." : refused;
    // A stock client would retry what cannot succeed, or what is charged already.
    const headers = this.mayHaveCharged || this.isNotFound ? { "x-should-retry": "false" } : undefined;
    return new GatewayError(this.code, { message, headers });
  }
}

/** The client has left: neither an answer nor a failure. */
export class ClientLeft extends Error {
  /** What the call that it left used by a guess, where one was made. */
  use?: CallUse;
}

/** What a provider is sent: to which endpoint, and the JSON of it. */
export type ProviderRequest = { endpoint: Endpoint; body: string };

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
  const firstByteBy = call.now() + call.limits.routesMs;
  for (const route of call.routes) {
    const startedAt = call.now();
    try {
      return await ask(call, { route, firstByteBy });
    } catch (error) {
      if (error instanceof ProviderFailure) mayHaveCharged ||= error.mayHaveCharged;
      failure = error instanceof ProviderFailure ? new ProviderFailure({ ...error, mayHaveCharged }) : error;
      const inTime = call.now() < firstByteBy;
      const more = error instanceof ProviderFailure && error.retryable && route !== call.routes.at(-1) && inTime;
      const status = error instanceof ClientLeft ? "aborted" : "failed";
      addStep({ type: more ? "retry" : "model", name: call.name, status }, startedAt);
      if (!more) throw failure;
      if (!mayHaveCharged) call.onUncharged?.();
    }
  }
  throw failure ?? new GatewayError("service_unavailable");
}

async function ask(
  call: ProviderCall,
  { route, firstByteBy }: { route: RunRoute; firstByteBy: number },
): Promise<ProviderAnswer> {
  const provider = call.providers.get(route.provider);
  if (!provider) throw new GatewayError("service_unavailable");
  const startedAt = call.now();
  const connection = openConnection(call.clientLeft, call);
  let dispatched = false;
  /** What is not there ends the call. */
  async function attended<More>(reading: () => Promise<More>): Promise<More> {
    try {
      connection.expectWithin(call.limits.idleMs);
      const more = await reading();
      // A client that takes its time is no fault of the provider's: only the time in all runs on.
      connection.expectWithin(Number.POSITIVE_INFINITY);
      if (!more) connection.close();
      return more;
    } catch (cause) {
      throw connection.explain(cause, { mayHaveCharged: true, retryable: false });
    }
  }
  try {
    const { endpoint, body } = call.requestFor(route, provider);
    const { url, headers } = addressOf(provider, { endpoint, model: route.model });
    if (!wasJustReached(provider.baseUrl, call.now)) {
      const { connectMs: limitMs } = call.limits;
      await ensureReachable(provider, { limitMs, signal: connection.ended(), now: call.now });
    }
    dispatched = true;
    if (!call.clientLeft.aborted) call.onDispatch?.(route);
    if (provider.drains) connection.outliveClient();
    connection.expectWithin(Math.min(call.limits.firstByteMs, firstByteBy - call.now()));
    if (connection.isClosed()) throw over;
    const exchange = post(
      url,
      {
        ...headers,
        "content-type": "application/json",
        "accept-encoding": "identity",
        "x-request-id": call.requestId,
      },
      body,
    );
    connection.onClose(exchange.abandon);
    const { status, contentType, encoding, read, pour } = await exchange.answer;
    noteReached(provider.baseUrl, call.now);
    if (redirects.has(status)) throw new Error("a redirect is not followed");
    if (status < 200 || status >= 300) {
      connection.close();
      throw statusFailure(status);
    }
    // Nobody could read it.
    if (encoding !== "identity") {
      throw new ProviderFailure({ code: "provider_error", mayHaveCharged: true, retryable: false });
    }
    let ahead = await read();
    if (!ahead) throw new ProviderFailure({ code: "provider_error", mayHaveCharged: true, retryable: true });
    const firstByteAt = call.now();
    connection.expectWithin(Number.POSITIVE_INFINITY);
    return {
      route,
      contentType,
      startedAt,
      firstByteAt,
      drains: provider.drains,
      ended: connection.ended,
      cancel: connection.close,
      async read() {
        const first = ahead;
        ahead = undefined;
        return first ?? attended(read);
      },
      async pour(take) {
        const first = ahead;
        ahead = undefined;
        if (first && !take(first)) return true;
        return attended(() =>
          pour((bytes) => {
            connection.expectWithin(call.limits.idleMs);
            return take(bytes);
          }),
        );
      },
    };
  } catch (cause) {
    if (cause instanceof ProviderFailure) {
      connection.close();
      throw cause;
    }
    noteFailed(provider.baseUrl);
    // Once the request is on its way, nothing tells whether it arrived, unless there was no connection at all.
    throw connection.explain(cause, {
      mayHaveCharged: dispatched && !(cause instanceof NotConnected),
      retryable: true,
    });
  }
}

const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** Why a call's signal falls, whatever the reason: an error of its own each time would cost more than it tells. */
const over = new Error("the call is over");

/** What holds one provider call together: its limits, its client and its exchange, and why it is over. */
function openConnection(clientLeft: AbortSignal, { now, deadline }: { now: () => number; deadline: number }) {
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
    isClosed: () => closed,
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
    isNotFound: status === 404,
  });
}
