import { Buffer } from "node:buffer";
import { readOrAuthenticate } from "./admission/credentials.ts";
import { listProvidersWithEndpoint, listRegions, refuseEndpoint } from "./admission/endpoints.ts";
import { readCaller, readLabels } from "./admission/labels.ts";
import type { CallFacts } from "./admission/refused-calls.ts";
import { readSessionLabel } from "./admission/session-label.ts";
import { checkStrictMode } from "./admission/strict-mode.ts";
import { settleFailure } from "./answers/answer-call.ts";
import { beginInTime } from "./answers/begin-response.ts";
import { replayAnswer } from "./answers/replay-answer.ts";
import type { Gateway } from "./calls/gateway.ts";
import type { AdmittedCall, Surface } from "./calls/surface.ts";
import type { Caller } from "./database/database.ts";
import type { Body } from "./http/body.ts";
import { toGatewayError } from "./http/errors.ts";
import { runInTurn } from "./http/large-work.ts";
import { parseJson } from "./http/parse-json.ts";
import type { Handler, RoutedCall } from "./http/router.ts";
import { dropInput, type ParsedRequest } from "./requests/parsed-request.ts";
import { maxStoredSize } from "./runs/captured-content.ts";
import { openRun } from "./runs/run.ts";

/**
 * Serves a surface. Checks the credential's syntax, reads and validates the body, admits the call with a reservation,
 * calls the provider and settles. Records a call that is refused before its run begins.
 */
export function serveSurface<Parsed extends ParsedRequest>(gateway: Gateway, surface: Surface<Parsed>): Handler {
  return async (call) => {
    const startedAt = gateway.now();
    const caller = await readCaller(gateway, call.request, surface.keyHeader);
    const check = () => gateway.database.checkCredential({ ...caller, kind: surface.kind });
    const facts: CallFacts = {
      caller,
      request_id: call.requestId,
      endpoint: call.path,
      feature: surface.feature,
      state: "unchecked",
    };
    let body: Body | undefined;
    try {
      body = await gateway.readBody(call.request, { limitBytes: surface.limitBytes, check });
      return await admitCall(gateway, surface, { ...call, caller, check, body, startedAt, facts });
    } catch (error) {
      body?.release();
      gateway.refusedCalls.add(facts, toGatewayError(error));
      throw error;
    }
  };
}

type ReceivedCall = RoutedCall & {
  caller: Caller;
  check: () => Promise<string>;
  body: Body;
  startedAt: number;
  facts: CallFacts;
};

async function admitCall<Parsed extends ParsedRequest>(
  gateway: Gateway,
  surface: Surface<Parsed>,
  { request: httpRequest, requestId, path, caller, check, body, startedAt, facts }: ReceivedCall,
): Promise<Response> {
  const { bytes } = body;
  const size = bytes.byteLength;
  // From here on, a call is refused only once its credential has been checked.
  facts.state = "checked";
  const { request, labels, fingerprint } = await readOrAuthenticate(check, async () => {
    const labels = readLabels(httpRequest);
    facts.feature = labels.operation ?? facts.feature;
    facts.label = labels.entityId;
    const fingerprint = labels.idempotencyKey === undefined ? undefined : await computeFingerprint(path, bytes);
    const parse = () => parseJson(httpRequest, bytes, { maxNumbers: surface.maxNumbers });
    const read = (value: unknown) => {
      noteModel(facts, value);
      return surface.read(value, size, httpRequest.headers);
    };
    if (!body.isLarge) return { labels, fingerprint, request: read(parse()) };
    // Parsing and validating a large body take about the same time. Other calls run in between.
    const value = await runInTurn(parse);
    if (size > maxStoredSize) body.discardBytes();
    return { labels, fingerprint, request: await runInTurn(() => read(value)) };
  });
  const feature = labels.operation ?? surface.feature;
  const isLabelled = labels.entityId !== undefined;
  const admission = gateway.beginRun({
    ...caller,
    request_id: requestId,
    feature,
    entity_id: labels.entityId,
    session_label: isLabelled ? undefined : readSessionLabel(httpRequest.headers, surface.session?.(request)),
    idempotency_key: labels.idempotencyKey,
    fingerprint,
    kind: surface.kind,
    streamed: request.stream || undefined,
    model: request.model,
    voice: request.voice,
    providers: listProvidersWithEndpoint(gateway.providers, surface.endpoint),
    regions: listRegions(gateway.providers),
    input_bytes: request.inputBytes,
    // An embeddings request may have many inputs, each of which fits in the context window.
    input_reads: surface.kind === "chat" ? (request.inputReads ?? 1) : undefined,
    expected_tokens: request.expectedTokens,
    hour_writes: request.hourWrites !== undefined,
    is_free: request.isFree,
    images: request.images || undefined,
    fee_requests: request.feeRequests,
    audio: request.audio || undefined,
    audio_seconds: request.audioSeconds,
    service_tier: request.serviceTier,
    output_limit: request.outputLimit,
    output_limit_assumed: request.outputLimitAssumed || undefined,
    size_fields: request.sizeFields,
    choices: request.choices === 1 ? undefined : request.choices,
  });
  const { kind } = surface;
  const run = await admission.catch((error) => refuseEndpoint(error, gateway, { caller, kind, model: request.model }));
  if ("storedAnswer" in run) {
    body.release();
    return replayAnswer(surface, request, run.storedAnswer);
  }
  facts.state = "open";
  // The model's output limit may be lower than our default.
  request.outputLimit = run.output_limit ?? request.outputLimit;
  const open = openRun(gateway, {
    run,
    startedAt,
    request,
    labels: { requestId, path, feature },
    onEnd: () => (largeBody ?? body).release(),
  });
  const storing = size > maxStoredSize ? undefined : open.content.storePrompt(bytes);
  body.discardBytes();
  const largeBody = body.isLarge ? createLargeBody(body, { request, storing }) : undefined;
  const call: AdmittedCall<Parsed> = {
    surface,
    request,
    requestId,
    clientSignal: httpRequest.signal,
    model: run.model,
    open,
    body: largeBody,
    usageLimits: {
      contextWindow: run.context_window ? run.context_window * (request.inputReads ?? 1) : undefined,
      outputLimit: request.outputLimit,
      choices: request.choices,
      hourWrites: request.hourWrites,
    },
    inputEstimate: request.inputEstimate,
    deadline: startedAt + (surface.beginsWithAnswer ? gateway.limits.wholeAnswerMs : gateway.limits.totalMs),
  };
  const refusal = checkStrictMode(run, { request, providers: gateway.providers });
  if (refusal) throw settleFailure(refusal, call);
  const answering = surface.answer(gateway, call);
  // Keeps the isolate alive until the run has ended, even if the client disconnects.
  gateway.waitUntil(answering.catch(() => {}));
  return surface.beginsWithAnswer ? answering : beginInTime(gateway, call, answering);
}

/** Adds what an unchecked body states about its model to the facts of a call, for the record of a refusal. */
function noteModel(facts: CallFacts, value: unknown): void {
  const { model, stream } = (value ?? {}) as { model?: unknown; stream?: unknown };
  if (typeof model === "string") facts.model = model;
  facts.streamed = stream === true;
}

/** Creates a large body that also drops the values of its request, and has its memory until the prompt is stored. */
function createLargeBody(
  body: Body,
  { request, storing }: { request: ParsedRequest; storing: Promise<void> | undefined },
) {
  let isStoring = storing !== undefined;
  let onStored = () => {};
  storing?.finally(() => {
    isStoring = false;
    onStored();
  });
  function onceStored(act: () => void): void {
    if (isStoring) onStored = act;
    else act();
  }
  return {
    resume(signal: AbortSignal) {
      onStored = () => {};
      return body.resume(signal);
    },
    keepOnly(forms: { values: boolean; request: boolean }) {
      if (!forms.values) dropInput(request);
      onceStored(() => body.keepOnly(forms));
    },
    release: () => onceStored(body.release),
  };
}

/** Returns the fingerprint of a request for its idempotency key: the SHA-256 of path and raw body, in hexadecimal. */
async function computeFingerprint(path: string, body: Uint8Array): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", Buffer.concat([Buffer.from(`${path}\n`), body]));
  return Buffer.from(hash).toString("hex");
}
