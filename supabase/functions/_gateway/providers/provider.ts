import type { Attempt, AttemptFailure } from "../../_shared/attempt.ts";
import type { RunRoute } from "../database/database.ts";
import type { ProviderTake, TakenCall } from "../database/take-queue.ts";
import type { Body } from "../http/body.ts";
import { GatewayError } from "../http/errors.ts";
import type { CallUse } from "../usage/usage.ts";
import { type Connection, openConnection } from "./connection.ts";
import type { Cooldowns } from "./cooldowns.ts";
import { type Exchange, type ExchangeAnswer, post } from "./exchange.ts";
import type { Endpoint } from "./kinds/kind.ts";
import { chooseRequestLimits, type TimeLimits } from "./limits.ts";
import { NotConnected } from "./not-connected.ts";
import { createModelAddress } from "./provider-address.ts";
import { createAnswerReader, type ProviderAnswer, readErrorAnswer } from "./provider-answer.ts";
import { ClientLeft, ProviderFailure } from "./provider-failure.ts";
import { createProviderRoom } from "./provider-room.ts";
import type { Provider } from "./provider-settings.ts";
import { ensureReachable, noteFailed, noteReached, wasJustReached } from "./reachable.ts";

/** A request to a provider: the JSON body, and headers that override the provider's default headers. */
export type ProviderRequest = { endpoint: Endpoint; body: string; headers?: Readonly<Record<string, string>> };

/** A provider call that failed, as a step of its run. */
type ProviderStep = { type: "model" | "retry"; name: string; status: "failed" | "aborted" };

export type ProviderCall = {
  /** The run that records steps, attempts and their usage. */
  open: {
    attempts: Attempt[];
    addStep: (step: ProviderStep, startedAt: number, attempt: Attempt) => void;
    finishCall: (use: CallUse) => void;
  };
  routes: readonly RunRoute[];
  providers: ReadonlyMap<string, Provider>;
  cooldowns: Cooldowns;
  endpoint: Endpoint;
  stream: boolean;
  requestFor: (route: RunRoute, provider: Provider) => ProviderRequest;
  /** The run's id, sent to the provider as `x-request-id`. */
  requestId: string;
  /** The name of this call in the run's steps. */
  name: string;
  clientLeft: AbortSignal;
  limits: TimeLimits;
  /** The time by which the whole call must end, on the clock of `now`. */
  deadline: number;
  now: () => number;
  /** Takes the call from the limits of a provider. Called only for routes of limited providers. */
  takeCall: (take: Pick<ProviderTake, "provider" | "wait_ms">) => Promise<TakenCall>;
  /** Returns the estimated usage of a request that was sent to a route and exceeded a time limit. */
  estimate: (route: RunRoute) => CallUse;
  /** Called when the request is sent to a route, whose provider may charge from then on. */
  onDispatch?: (route: RunRoute) => void;
  /** Called before the next route is tried, unless a provider may already have charged. */
  onUncharged?: () => void;
  /** The memory of the client's body, if it is large. */
  body?: Pick<Body, "keepOnly" | "resume"> | undefined;
};

/**
 * Calls the routes of a run in order until `accept` takes an answer. Tries the next route after a failure, unless the
 * request itself caused it. Routes in cooldown come last, and those of a limited provider without room after them. Adds
 * failed attempts to the run's steps.
 * @param accept reads an answer far enough to validate it. @throws ProviderFailure to try the next route
 * @throws ProviderFailure the most helpful failure, which says whether any attempt may have been charged
 * @throws ClientLeft
 */
export async function callProvider<Accepted>(
  call: ProviderCall,
  accept: (answer: ProviderAnswer) => Promise<Accepted>,
): Promise<Accepted> {
  const { now, cooldowns } = call;
  const skipped: Attempt[] = [];
  const room = createProviderRoom(call);
  const routes = orderRoutes(call, { skipped, room });
  let reported: ProviderFailure | undefined;
  let attempts = 0;
  for (let turn = routes.next(); !turn.done; ) {
    const hasMemory = !call.body || (await call.body.resume(call.clientLeft));
    if (!hasMemory || (turn.value.limited && !(await room.take(turn.value)))) {
      // The call may have been the one that probes the route.
      const unsent = { failure: "cancelled", startedAt: now(), undecided: true } as const;
      cooldowns.noteFailure(keyOf(call, turn.value), unsent);
      // The run has the usage of earlier failures already.
      if (reported?.mayHaveCharged) reported = reported.afterCharge(undefined);
      if (!hasMemory) break;
      noteSkipped(skipped, turn.value);
      turn = routes.next();
      continue;
    }
    attempts += 1;
    call.open.attempts.push(...skipped.splice(0));
    const request = createRouteRequest(call, turn.value);
    const { startedAt, undecided } = request;
    let response: RouteResponse | undefined;
    try {
      const keepOnly = createBodyReleaser(call, { attempt: attempts, latest: () => attempts });
      response = await requestRoute(call, request, { keepOnly });
      const accepted = await accept(response.answer);
      call.body?.keepOnly({ values: false, request: false });
      cooldowns.noteAnswer(keyOf(call, request.route));
      return accepted;
    } catch (error) {
      response?.connection.close();
      const failure = error instanceof ProviderFailure ? error : undefined;
      const hasLeft = error instanceof ClientLeft;
      const {
        failure: reason = hasLeft ? "cancelled" : "invalid_answer",
        retryAfterSeconds,
        mayBeRequest,
      } = failure ?? {};
      const attempt = request.attempt(reason, failure?.mayHaveCharged);
      cooldowns.noteFailure(keyOf(call, request.route), {
        failure: reason,
        status: attempt.status,
        startedAt,
        retryAfterSeconds,
        undecided: undecided || mayBeRequest === true,
        waitedLong: hasLeft && !response && now() - startedAt >= request.limits.firstByteMs / 2,
      });
      const movesOn = failure?.retryable && now() < call.deadline;
      turn = movesOn ? routes.next() : { done: true, value: undefined };
      const status = hasLeft ? "aborted" : "failed";
      call.open.addStep({ type: turn.done ? "model" : "retry", name: call.name, status }, startedAt, attempt);
      if (!failure) throw error;
      reported = chooseMoreUseful(reported, failure);
      if (!turn.done && failure.use) call.open.finishCall(failure.use);
      if (!turn.done && !reported.mayHaveCharged) call.onUncharged?.();
    }
  }
  call.open.attempts.push(...skipped);
  const full = room.failure();
  if (full) reported = reported ? chooseMoreUseful(full, reported) : full;
  throw reported ?? new GatewayError("service_unavailable");
}

/** Returns the memory of the forms of the body that an attempt no longer needs, unless a later attempt has begun. */
type Keeper = (forms: { request: boolean }) => void;

function createBodyReleaser(
  { body, routes }: ProviderCall,
  { attempt, latest }: { attempt: number; latest: () => number },
): Keeper | undefined {
  const values = attempt < routes.length;
  return body && (({ request }) => (latest() === attempt ? body.keepOnly({ values, request }) : undefined));
}

/**
 * Yields the routes to call: first those that work, then those that are set aside, and then the one whose provider has
 * room again soonest. Leaves out hanging routes if any route works.
 */
function* orderRoutes(
  call: ProviderCall,
  { skipped, room }: { skipped: Attempt[]; room: Pick<ReturnType<typeof createProviderRoom>, "nextRoom"> },
): Generator<RunRoute, undefined> {
  const setAside: { route: RunRoute; hangs: boolean }[] = [];
  let hasOpenRoute = false;
  for (const route of call.routes) {
    const state = call.cooldowns.stateOf(keyOf(call, route));
    if (state === "open") {
      hasOpenRoute = true;
      yield route;
    } else {
      setAside.push({ route, hangs: state === "hanging" });
      noteSkipped(skipped, route);
    }
  }
  // If every route is set aside, none of them counts as skipped.
  if (!hasOpenRoute) skipped.length = 0;
  // A call must not wait for a hanging route after another route has been tried.
  for (const { route, hangs } of setAside) if (!hasOpenRoute || !hangs) yield route;
  const next = call.routes.length > 1 ? room.nextRoom() : undefined;
  if (next) yield next;
}

function noteSkipped(skipped: Attempt[], route: RunRoute): void {
  if (skipped.some((attempt) => attempt.route === route.position)) return;
  skipped.push({ ...factsOf(route), failure: "skipped", latency_ms: 0 });
}

const factsOf = ({ position, provider, model }: RunRoute) => ({ route: position, provider, model });
const keyOf = ({ endpoint }: Pick<ProviderCall, "endpoint">, { provider, model }: RunRoute) =>
  `${provider} ${model} ${endpoint}`;

/**
 * Returns the failure that helps the caller more: an earlier rate limit rather than a provider error, an earlier
 * failure that needs no operator rather than one that does, any failure rather than one that only its route has, and
 * otherwise the later failure.
 */
function chooseMoreUseful(before: ProviderFailure | undefined, now: ProviderFailure): ProviderFailure {
  if (!before) return now;
  const isBusy = before.failure === "rate_limited" && now.code === "provider_error";
  const isLess = (now.needsOperator && !before.needsOperator) || now.isOfRoute;
  const reported = isBusy || isLess ? before : now;
  // The run has the usage of earlier failures already.
  return before.mayHaveCharged || now.mayHaveCharged ? reported.afterCharge(now.use) : reported;
}

/** The state of a request to one route, created before the request is sent. */
type RouteRequest = {
  route: RunRoute;
  provider: Provider;
  startedAt: number;
  limits: TimeLimits;
  /** The time by which the request must end, on the gateway's clock. */
  deadline: number;
  /**
   * Whether the request has less time than usual, because earlier routes used some of the call's time. If so, a failure
   * doesn't count against this route.
   */
  undecided: boolean;
  recordHead: (answer: Pick<ExchangeAnswer, "status" | "header">) => void;
  attempt: (failure?: AttemptFailure, mayHaveCharged?: boolean) => Attempt;
};

function createRouteRequest(
  { providers, limits: all, stream, routes, deadline, now, requestId }: ProviderCall,
  route: RunRoute,
): RouteRequest {
  const provider = providers.get(route.provider);
  if (!provider) throw new GatewayError("service_unavailable");
  const limits = chooseRequestLimits(all, { stream, provider, route, isLast: route === routes.at(-1) });
  const startedAt = now();
  const usualMs = Math.min(limits.firstByteMs, all.totalMs);
  const head: Pick<Attempt, "status" | "upstream_request_id"> = {};
  return {
    route,
    provider,
    startedAt,
    limits,
    deadline: Math.min(deadline, startedAt + limits.totalMs),
    undecided: deadline - startedAt < 0.9 * usualMs,
    recordHead({ status, header }) {
      head.status = status;
      head.upstream_request_id = upstreamRequestId(header, requestId);
    },
    attempt: (failure, mayHaveCharged) => ({
      ...factsOf(route),
      ...head,
      ...(failure ? { failure } : {}),
      ...(mayHaveCharged ? { may_have_charged: true } : {}),
      latency_ms: Math.round(now() - startedAt),
    }),
  };
}

/**
 * Response headers that may carry a request id: OpenRouter's generation id, by which it states the cost of a call,
 * OpenAI's, which most providers use, Azure's, Bedrock's, Anthropic's, and Cloudflare's.
 */
const requestIdHeaders = [
  "x-generation-id",
  "x-request-id",
  "apim-request-id",
  "x-amzn-requestid",
  "request-id",
  "cf-ray",
];

/** Returns the provider's request id. Ignores our own id, which some servers return. */
function upstreamRequestId(header: ExchangeAnswer["header"], ownId: string): string | undefined {
  const ids = requestIdHeaders.map((name) => header(name));
  return ids.find((id) => id !== undefined && id !== ownId && /^[\x21-\x7e]{1,128}$/.test(id));
}

type RouteResponse = { answer: ProviderAnswer; connection: Connection };

/** Sends a request. A separate function, because an async one would keep the request's text while it awaits. */
function send(
  call: ProviderCall,
  { route, provider, keepOnly }: Pick<RouteRequest, "route" | "provider"> & { keepOnly: Keeper | undefined },
): Exchange {
  const { endpoint, body, headers: own } = call.requestFor(route, provider);
  const { url, headers } = createModelAddress(provider, { endpoint, model: route.model });
  const allHeaders = {
    ...headers,
    ...own,
    "content-type": "application/json",
    "accept-encoding": "identity",
    "x-request-id": call.requestId,
  };
  return post(url, allHeaders, body, { onSent: keepOnly && (() => keepOnly({ request: false })) });
}

async function requestRoute(
  call: ProviderCall,
  request: RouteRequest,
  { keepOnly }: { keepOnly: Keeper | undefined },
): Promise<RouteResponse> {
  const { route, provider, startedAt, limits, deadline } = request;
  const { now } = call;
  const connection = openConnection(call.clientLeft, { now, deadline, estimate: () => call.estimate(route) });
  let dispatched = false;
  try {
    if (!wasJustReached(provider.baseUrl, now)) {
      await ensureReachable(provider, { limitMs: limits.connectMs, signal: connection.ended(), now });
    }
    dispatched = true;
    if (!call.clientLeft.aborted) call.onDispatch?.(route);
    if (provider.drains) connection.outliveClient();
    connection.expectWithin(limits.firstByteMs);
    connection.assertOpen();
    const exchange = send(call, { route, provider, keepOnly });
    keepOnly?.({ request: true });
    connection.onClose(exchange.abandon);
    const answer = await exchange.answer;
    request.recordHead(answer);
    noteReached(provider.baseUrl, now);
    if (answer.status < 200 || answer.status >= 300) throw await readErrorAnswer(answer, connection);
    const first = await answer.read();
    if (!first) throw new ProviderFailure("invalid_answer", { mayHaveCharged: true });
    const firstByteAt = now();
    connection.expectWithin(Number.POSITIVE_INFINITY);
    return {
      connection,
      answer: {
        route,
        contentType: answer.header("content-type")?.toLowerCase() ?? "",
        startedAt,
        firstByteAt,
        drains: provider.drains,
        unbilled: provider.kind.unbilled,
        attempt: request.attempt,
        ended: connection.ended,
        cancel: connection.close,
        ...createAnswerReader(answer, { first, connection, idleMs: limits.idleMs }),
      },
    };
  } catch (cause) {
    if (cause instanceof ProviderFailure) {
      connection.close();
      throw cause;
    }
    noteFailed(provider.baseUrl);
    // A dispatched request may have reached the provider, unless no connection was established.
    const sent = dispatched && !(cause instanceof NotConnected);
    throw connection.explain(cause, { sent, retryable: true });
  }
}
