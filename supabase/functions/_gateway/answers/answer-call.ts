import type { Gateway } from "../calls/gateway.ts";
import { getStopError } from "../calls/held-calls.ts";
import type { AdmittedCall, PendingCall } from "../calls/surface.ts";
import { runLimitHeaders } from "../database/rate-limits.ts";
import { GatewayError, getErrorStatus, openaiErrors, toGatewayError } from "../http/errors.ts";
import { callProvider } from "../providers/provider.ts";
import type { ProviderAnswer } from "../providers/provider-answer.ts";
import { ClientLeft, createInvalidAnswerFailure, ProviderFailure } from "../providers/provider-failure.ts";
import { dropInput, type ParsedRequest } from "../requests/parsed-request.ts";
import type { Platform, RunEnd } from "../runs/run.ts";
import type { AnswerFormat } from "./answer-format.ts";
import { bufferFirstEvent } from "./first-event.ts";
import { bodyHeaders, createKeepalive } from "./keepalive.ts";
import { createOutputReservation } from "./output-reservation.ts";
import { type RelayOptions, relayStream } from "./relay-stream.ts";
import type { ProviderStream } from "./stream-step.ts";
import { addPlatform, readStatedUse, readWholeAnswer } from "./whole-answer.ts";

/** Answers a client's call with one provider call, streamed or whole. The run is settled however the call ends. */
export async function answerCall<Parsed extends ParsedRequest>(
  gateway: Gateway,
  call: AdmittedCall<Parsed>,
  format: AnswerFormat<Parsed>,
): Promise<Response> {
  try {
    const reader = call.request.stream ? format.createReader?.(call, { isRelayed: true }) : undefined;
    if (reader) {
      const stream = await requestStream(gateway, call, format);
      const { inputEstimate, usageLimits } = call;
      return relayResponse(gateway, call, { step: { ...stream, reader, inputEstimate, usageLimits } });
    }
    const { answer, read } = await requestWholeAnswer(gateway, call, (whole) => readWholeAnswer(whole, call, format));
    const text = (platform: Record<string, unknown>) => addPlatform(read, platform);
    const platform = settleWholeAnswer(call, answer, { use: read.use, answer: { texts: read.texts, text } });
    return wholeResponse(call, { text: text(platform), platform });
  } catch (error) {
    return respondToFailure(error, call);
  }
}

/** Calls the run's routes in order until `accept` takes an answer. @throws ProviderFailure or ClientLeft */
function requestAnswer<Parsed extends ParsedRequest, Accepted>(
  gateway: Gateway,
  call: AdmittedCall<Parsed>,
  accept: (answer: ProviderAnswer) => Promise<Accepted>,
): Promise<Accepted> {
  const { surface, request, clientSignal, model, open, body, mayContinue = false } = call;
  return callProvider(
    {
      open,
      routes: open.run.routes,
      providers: gateway.providers,
      cooldowns: gateway.cooldowns,
      endpoint: surface.endpoint,
      stream: request.stream,
      requestFor: (route, provider) =>
        surface.request(request, {
          route,
          provider,
          workspaceId: open.run.workspace_id,
          voice: open.run.voice ?? undefined,
          contextWindow: open.run.context_window ?? undefined,
        }),
      requestId: open.run.run_id,
      name: model,
      clientLeft: clientSignal,
      limits: gateway.limits,
      deadline: call.deadline,
      now: gateway.now,
      takeCall: (take) => gateway.database.takeProviderCall({ ...take, ...measureCall(call) }),
      estimate: ({ position }) => ({ route: position, usage: call.inputEstimate, basis: "guess" }),
      onDispatch: (route) => {
        open.dispatched = true;
        open.progress.route = route.position;
        // If this process ends while the provider thinks, the sweep charges an estimate.
        open.progress.input_tokens = call.inputEstimate.input_tokens;
      },
      onUncharged: () => {
        open.dispatched = false;
        open.progress.input_tokens = 0;
      },
      body: body && {
        resume: body.resume,
        keepOnly(forms) {
          const values = forms.values || mayContinue;
          if (!values) dropInput(request);
          body.keepOnly({ ...forms, values });
        },
      },
    },
    accept,
  );
}

/** Returns what a provider's limit of tokens counts: one reading of the input, and the output limit. */
function measureCall<Parsed extends ParsedRequest>({ surface, request, open }: AdmittedCall<Parsed>) {
  const { inputBytes, inputReads = 1, images, audioSeconds, outputLimit, choices } = request;
  return {
    input_bytes: Math.ceil(inputBytes / inputReads),
    images: Math.ceil(images / inputReads),
    audio_seconds: audioSeconds,
    output_tokens: outputLimit * choices,
    // An embeddings request may have many inputs, each of which fits in the context window.
    context_window: (surface.kind === "chat" && open.run.context_window) || undefined,
  };
}

/** Requests a whole answer, and adds the call to the step trace. @throws ProviderFailure or ClientLeft */
export async function requestWholeAnswer<Parsed extends ParsedRequest, Read>(
  gateway: Gateway,
  call: AdmittedCall<Parsed>,
  readWhole: (answer: ProviderAnswer) => Promise<Read>,
): Promise<{ answer: ProviderAnswer; read: Read }> {
  const whole = await requestAnswer(gateway, call, async (answer) => ({ answer, read: await readWhole(answer) }));
  const { startedAt, attempt } = whole.answer;
  call.open.addStep({ type: "model", name: call.model, status: "succeeded" }, startedAt, attempt());
  return whole;
}

/**
 * Requests a stream from the run's routes. If an answer is not a stream, reads only the usage that it states, because
 * the provider charges for the call. The client never gets that answer.
 * @throws ProviderFailure or ClientLeft
 */
export function requestStream<Parsed extends ParsedRequest>(
  gateway: Gateway,
  call: AdmittedCall<Parsed>,
  format: Pick<AnswerFormat<Parsed>, "readAnswer" | "createReader">,
): Promise<ProviderStream> {
  return requestAnswer(gateway, call, async (answer) => {
    if (await bufferFirstEvent(answer, () => format.createReader?.(call))) {
      const { usageLimits } = call;
      const options = { route: answer.route.position, usageLimits, readAnswer: format.readAnswer };
      return { answer, readWholeUsage: (text) => readStatedUse(text, options) };
    }
    const { use } = await readWholeAnswer(answer, call, format);
    throw createInvalidAnswerFailure(use.basis === "final" ? use : undefined);
  });
}

/** Relays the stream of a call, and of the calls that follow it. */
export function relayResponse<Parsed extends ParsedRequest>(
  gateway: Gateway,
  call: AdmittedCall<Parsed>,
  { step, next }: Pick<RelayOptions, "step" | "next">,
): Response {
  const { surface, request, open, model, clientSignal, requestId } = call;
  const { database, waitUntil, limits } = gateway;
  const { run } = open;
  const expectedOutput = run.expected_output;
  const stream = relayStream({
    step,
    next,
    open,
    reservation:
      expectedOutput == null ? undefined : createOutputReservation({ database, run, expectedOutput, request }),
    errors: surface.errors,
    requestId,
    name: model,
    clientLeft: clientSignal,
    keepalive: createKeepalive(call),
    limits,
    waitUntil,
  });
  return streamedResponse(call, stream);
}

/**
 * Settles a run whose last answer was read in full.
 * @param end the usage of the last provider call, and the answer for the client
 * @returns the run's `platform` metadata
 */
export function settleWholeAnswer<Parsed extends ParsedRequest>(
  call: AdmittedCall<Parsed>,
  answer: ProviderAnswer,
  end: Pick<RunEnd, "use" | "answer">,
): Platform {
  return call.open.end({
    // The client may have disconnected before the answer ended. The answer is read to the end anyway if the provider
    // charges for all of it.
    ...(call.clientSignal.aborted ? cancelledOutcome(call) : { status: "succeeded", httpStatus: 200 }),
    ...end,
    firstByteMs: Math.round(answer.firstByteAt - answer.startedAt),
  });
}

/** Returns a complete answer as a response. Its rate limit headers count the run's actual usage. */
export function wholeResponse<Parsed extends ParsedRequest>(
  { open }: AdmittedCall<Parsed>,
  { text, platform, headers }: { text: string; platform: Platform; headers?: Record<string, string> },
): Response {
  const response = new Response(text, { headers: { "content-type": "application/json" } });
  return withHeaders(response, { ...runLimitHeaders(open.run, platform.usage), ...headers });
}

/** Adds headers one by one, which is faster than passing a list to the response's constructor. */
function withHeaders(response: Response, headers: Record<string, string>): Response {
  for (const name in headers) response.headers.set(name, headers[name] ?? "");
  return response;
}

/**
 * Returns an event stream as a response. Its rate limit headers count the tokens that the run reserved, because the
 * usage is not known yet.
 */
function streamedResponse<Parsed extends ParsedRequest>(
  { open }: AdmittedCall<Parsed>,
  stream: ReadableStream<Uint8Array> | string,
): Response {
  return withHeaders(new Response(stream, { headers: bodyHeaders({ stream: true }) }), runLimitHeaders(open.run));
}

/** Returns the estimated usage of the current provider call; undefined if no call was sent. */
export function estimateUse<Parsed extends ParsedRequest>({ open, inputEstimate }: AdmittedCall<Parsed>) {
  const route = open.progress.route;
  if (!open.dispatched || route === undefined) return undefined;
  return { route, usage: inputEstimate, basis: "guess" } as const;
}

/**
 * Ends the run of a failed call. Returns a stream that contains only the error, if the client expects an event.
 * @throws GatewayError if it expects a status
 */
export function respondToFailure<Parsed extends ParsedRequest>(error: unknown, call: AdmittedCall<Parsed>): Response {
  const reported = settleFailure(error, call);
  if (!endsInEvent(error, call)) throw reported;
  return streamedResponse(call, failureEvent(reported, call));
}

/** Returns the event that ends the stream of a call that failed before its client got any content. */
export function failureEvent<Parsed extends ParsedRequest>(error: GatewayError, call: PendingCall<Parsed>): string {
  const { failure, errors = openaiErrors } = call.surface;
  return failure?.(error, call) ?? errors.event(error, call.requestId);
}

/**
 * Returns whether the client of a failed call expects an event: the response or the provider's stream had begun, or the
 * code asks for it.
 */
function endsInEvent<Parsed extends ParsedRequest>(
  error: unknown,
  { request, surface, open }: AdmittedCall<Parsed>,
): boolean {
  if (request.stream && open.hasResponseBegun) return true;
  if (!request.stream || !(error instanceof ProviderFailure)) return false;
  return error.streamBegan || surface.errors?.eventCodes?.has(error.code) === true;
}

/** Returns the outcome of a call that its client has left, or that the owner of its envelope stopped. */
function cancelledOutcome<Parsed extends ParsedRequest>({
  surface,
  open,
  clientSignal,
}: AdmittedCall<Parsed>): Pick<RunEnd, "status" | "httpStatus" | "errorCode"> {
  const stopped = getStopError(clientSignal);
  if (!stopped) return { status: "cancelled", httpStatus: 499 };
  const httpStatus = open.hasResponseBegun ? 200 : getErrorStatus(stopped, surface.errors ?? openaiErrors);
  return { status: "cancelled", httpStatus, errorCode: stopped.code };
}

/** Ends the run of a call that failed for any reason. @returns the error for the client */
export function settleFailure<Parsed extends ParsedRequest>(error: unknown, call: AdmittedCall<Parsed>): GatewayError {
  const { open } = call;
  const { dispatched } = open;
  if (error instanceof ClientLeft) {
    const use = error.use ?? estimateUse(call);
    open.end({ ...cancelledOutcome(call), use, keyUnused: !dispatched });
    return getStopError(call.clientSignal) ?? new GatewayError("provider_error");
  }
  const failure = error instanceof ProviderFailure ? error : undefined;
  const known = failure ? failure.toGatewayError() : toGatewayError(error);
  const mayHaveCharged = failure ? failure.mayHaveCharged : dispatched;
  const hasStatus200 = open.hasResponseBegun || endsInEvent(error, call);
  const httpStatus = hasStatus200 ? 200 : getErrorStatus(known, call.surface.errors ?? openaiErrors);
  // The client may have disconnected. If the provider charges for the whole answer, the answer is read to its end
  // anyway.
  const outcome = call.clientSignal.aborted
    ? cancelledOutcome(call)
    : ({ status: "failed", httpStatus, errorCode: known.code } as const);
  const { usage } = open.end({ ...outcome, use: failure?.use, keyUnused: !mayHaveCharged });
  // If the provider's rate limit is reached, the headers state our own limits. Our own refusals already have these
  // headers.
  const reported =
    failure?.code === "rate_limit_exceeded" ? known.withHeaders(runLimitHeaders(open.run, usage)) : known;
  // Standard clients would retry calls that are already charged.
  return mayHaveCharged || open.hasCharged() ? reported.withoutRetry() : reported;
}
