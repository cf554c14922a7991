import { Buffer } from "node:buffer";
import { readOrAuthenticate } from "./admission/credentials.ts";
import { listProvidersWithEndpoint, listRegions } from "./admission/endpoints.ts";
import { readCaller, readLabels } from "./admission/labels.ts";
import type { CallFacts } from "./admission/refused-calls.ts";
import { readSessionLabel } from "./admission/session-label.ts";
import { listStoppableProviders } from "./admission/stoppable-providers.ts";
import { answerRun, beginRun, type ReadCall } from "./answer-run.ts";
import type { Gateway } from "./calls/gateway.ts";
import type { Surface } from "./calls/surface.ts";
import type { Caller } from "./database/database.ts";
import { readEnvelope } from "./envelopes/envelope-header.ts";
import type { Body } from "./http/body.ts";
import { toGatewayError } from "./http/errors.ts";
import { runInTurn } from "./http/large-work.ts";
import { parseJson } from "./http/parse-json.ts";
import type { Handler, RoutedCall } from "./http/router.ts";
import { waitAndAnswer } from "./raised-calls.ts";
import type { ParsedRequest } from "./requests/parsed-request.ts";
import { maxStoredSize } from "./runs/captured-content.ts";

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
    function noteFailure(error: unknown): void {
      body?.release();
      gateway.refusedCalls.add(facts, toGatewayError(error));
    }
    try {
      body = await gateway.readBody(call.request, { limitBytes: surface.limitBytes, check });
      return await admitCall(gateway, surface, { ...call, caller, check, body, startedAt, facts, noteFailure });
    } catch (error) {
      noteFailure(error);
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
  /** Releases the body and records the refusal of a call whose run has not begun. */
  noteFailure: (error: unknown) => void;
};

async function admitCall<Parsed extends ParsedRequest>(
  gateway: Gateway,
  surface: Surface<Parsed>,
  received: ReceivedCall,
): Promise<Response> {
  const { request: httpRequest, requestId, path, caller, check, body, startedAt, facts, noteFailure } = received;
  const { bytes } = body;
  const size = bytes.byteLength;
  // From here on, a call is refused only once its credential has been checked.
  facts.state = "checked";
  const { request, labels, named, fingerprint } = await readOrAuthenticate(check, async () => {
    const labels = readLabels(httpRequest);
    facts.feature = labels.operation ?? facts.feature;
    facts.label = labels.entityId;
    const named = readEnvelope(httpRequest.headers);
    const fingerprint = labels.idempotencyKey === undefined ? undefined : await computeFingerprint(path, bytes);
    const parse = () => parseJson(httpRequest, bytes, { maxNumbers: surface.maxNumbers });
    const read = (value: unknown) => {
      noteModel(facts, value);
      return surface.read(value, size, httpRequest.headers);
    };
    if (!body.isLarge) return { labels, named, fingerprint, request: read(parse()) };
    // Parsing and validating a large body take about the same time. Other calls run in between.
    const value = await runInTurn(parse);
    if (size > maxStoredSize) body.discardBytes();
    return { labels, named, fingerprint, request: await runInTurn(() => read(value)) };
  });
  const isLabelled = labels.entityId !== undefined;
  const runRequest: ReadCall<Parsed>["runRequest"] = {
    ...caller,
    request_id: requestId,
    feature: labels.operation ?? surface.feature,
    entity_id: labels.entityId,
    session_label: isLabelled ? undefined : readSessionLabel(httpRequest.headers, surface.session?.(request)),
    envelope: named?.envelope,
    idempotency_key: labels.idempotencyKey,
    fingerprint,
    kind: surface.kind,
    streamed: request.stream || undefined,
    model: request.model,
    voice: request.voice,
    providers: listProvidersWithEndpoint(gateway.providers, surface.endpoint),
    stoppable_providers: surface.kind === "chat" ? listStoppableProviders(gateway.providers, request) : undefined,
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
  };
  const { limits } = gateway;
  const call: ReadCall<Parsed> = {
    httpRequest,
    requestId,
    path,
    caller,
    body,
    size,
    startedAt,
    deadline: startedAt + (surface.beginsWithAnswer ? limits.wholeAnswerMs : limits.totalMs),
    facts,
    request,
    runRequest,
  };
  if (named?.waitSeconds)
    return waitAndAnswer(gateway, surface, { ...call, waitSeconds: named.waitSeconds, noteFailure });
  return answerRun(gateway, surface, { ...call, run: await beginRun(gateway, call) });
}

/** Adds what an unchecked body states about its model to the facts of a call, for the record of a refusal. */
function noteModel(facts: CallFacts, value: unknown): void {
  const { model, stream } = (value ?? {}) as { model?: unknown; stream?: unknown };
  if (typeof model === "string") facts.model = model;
  facts.streamed = stream === true;
}

/** Returns the fingerprint of a request for its idempotency key: the SHA-256 of path and raw body, in hexadecimal. */
async function computeFingerprint(path: string, body: Uint8Array): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", Buffer.concat([Buffer.from(`${path}\n`), body]));
  return Buffer.from(hash).toString("hex");
}
