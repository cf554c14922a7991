import { hex, readOrAuthenticate } from "./admission/credentials.ts";
import { providersWith, refuseEndpoint } from "./admission/endpoints.ts";
import { readCaller, readLabels } from "./admission/labels.ts";
import { sessionLabel } from "./admission/session-label.ts";
import { strictModeRefusal } from "./admission/strict-mode.ts";
import { settleFailure } from "./answers/answer-call.ts";
import { beginInTime } from "./answers/begin-response.ts";
import { replayAnswer } from "./answers/replay-answer.ts";
import { type AdmittedCall, forgetInput } from "./call.ts";
import type { Caller } from "./database.ts";
import type { Gateway } from "./gateway.ts";
import type { Body } from "./http/body.ts";
import { runInTurn } from "./http/large-work.ts";
import { parseJson } from "./http/parse-json.ts";
import type { Call, Handler } from "./http/router.ts";
import { maxKept } from "./runs/captured-content.ts";
import { openRun } from "./runs/run.ts";
import type { Asked, Surface } from "./surface.ts";

/**
 * Serves a surface. Checks the credential's syntax, reads and validates the body, admits the call with a reservation,
 * calls the provider and settles.
 */
export function serveSurface<Request extends Asked>(gateway: Gateway, surface: Surface<Request>): Handler {
  return async (call) => {
    const startedAt = gateway.now();
    const caller = await readCaller(gateway, call.request, surface.keyHeader);
    const check = () => gateway.database.checkCredential({ ...caller, kind: surface.kind });
    const body = await gateway.readBody(call.request, { limitBytes: surface.limitBytes, check });
    try {
      return await admit(gateway, surface, { ...call, caller, check, body, startedAt });
    } catch (error) {
      body.release();
      throw error;
    }
  };
}

type Arrived = Call & { caller: Caller; check: () => Promise<string>; body: Body; startedAt: number };

async function admit<Request extends Asked>(
  gateway: Gateway,
  surface: Surface<Request>,
  { request, requestId, path, caller, check, body, startedAt }: Arrived,
): Promise<Response> {
  const { bytes } = body;
  const size = bytes.byteLength;
  const { asked, labels, fingerprint } = await readOrAuthenticate(check, async () => {
    const labels = readLabels(request);
    const fingerprint = labels.idempotencyKey === undefined ? undefined : await fingerprintOf(path, bytes);
    const parse = () => parseJson(request, bytes, { maxNumbers: surface.maxNumbers });
    const read = (value: unknown) => surface.read(value, size, request.headers);
    if (!body.isLarge) return { labels, fingerprint, asked: read(parse()) };
    // Parsing and validating a large body take about the same time. Other calls run in between.
    const value = await runInTurn(parse);
    if (size > maxKept) body.discardBytes();
    return { labels, fingerprint, asked: await runInTurn(() => read(value)) };
  });
  const begin = gateway.beginRun({
    ...caller,
    request_id: requestId,
    feature: labels.operation ?? surface.feature,
    entity_id: labels.entityId,
    session_label: labels.entityId === undefined ? sessionLabel(request.headers, surface.session?.(asked)) : undefined,
    idempotency_key: labels.idempotencyKey,
    fingerprint,
    kind: surface.kind,
    streamed: asked.stream || undefined,
    model: asked.model,
    voice: asked.voice,
    providers: providersWith(gateway.providers, surface.endpoint),
    input_bytes: asked.inputBytes,
    // An embeddings request may have many inputs, each of which fits in the context window.
    input_reads: surface.kind === "chat" ? (asked.inputReads ?? 1) : undefined,
    expected_tokens: asked.expectedTokens,
    hour_writes: asked.hourWrites !== undefined,
    is_free: asked.isFree,
    images: asked.images || undefined,
    fee_requests: asked.feeRequests,
    audio: asked.audio || undefined,
    audio_seconds: asked.audioSeconds,
    service_tier: asked.serviceTier,
    output_limit: asked.outputLimit,
    output_limit_assumed: asked.outputLimitAssumed || undefined,
    size_fields: asked.sizeFields,
    choices: asked.choices === 1 ? undefined : asked.choices,
  });
  const begun = await begin.catch((error) => refuseEndpoint(error, gateway, { caller, surface, model: asked.model }));
  if ("kept" in begun) {
    body.release();
    return replayAnswer(surface, asked, begun.kept);
  }
  const run = begun;
  // The model's output limit may be lower than our default.
  asked.outputLimit = run.output_limit ?? asked.outputLimit;
  const about = { requestId, path, feature: labels.operation ?? surface.feature };
  const open = openRun(gateway, { run, startedAt, asked, about, onEnd: () => (largeBody ?? body).release() });
  const stored = size > maxKept ? undefined : open.content.notePrompt(bytes);
  body.discardBytes();
  const largeBody = body.isLarge ? largeBodyOf(body, { asked, stored }) : undefined;
  const admitted: AdmittedCall<Request> = {
    surface,
    asked,
    model: run.model,
    open,
    request,
    requestId,
    body: largeBody,
    usageLimits: {
      contextWindow: run.context_window ? run.context_window * (asked.inputReads ?? 1) : undefined,
      outputLimit: asked.outputLimit,
      choices: asked.choices,
      hourWrites: asked.hourWrites,
    },
    inputEstimate: asked.inputEstimate,
    deadline: startedAt + (surface.beginsWithAnswer ? gateway.limits.wholeAnswerMs : gateway.limits.totalMs),
  };
  const refusal = strictModeRefusal(run, { asked, providers: gateway.providers });
  if (refusal) throw settleFailure(refusal, admitted);
  const answering = surface.answer(gateway, admitted);
  // Keeps the isolate alive until the run has ended, even if the client disconnects.
  gateway.waitUntil(answering.catch(() => {}));
  return surface.beginsWithAnswer ? answering : beginInTime(gateway, admitted, answering);
}

/** Returns a large body that also drops the values of its request, and has its memory until the prompt is stored. */
function largeBodyOf(body: Body, { asked, stored }: { asked: Asked; stored: Promise<void> | undefined }) {
  let isStoring = stored !== undefined;
  let afterwards = () => {};
  stored?.finally(() => {
    isStoring = false;
    afterwards();
  });
  function onceStored(act: () => void): void {
    if (isStoring) afterwards = act;
    else act();
  }
  return {
    resume(signal: AbortSignal) {
      afterwards = () => {};
      return body.resume(signal);
    },
    keepOnly(forms: { values: boolean; request: boolean }) {
      if (!forms.values) forgetInput(asked);
      onceStored(() => body.keepOnly(forms));
    },
    release: () => onceStored(body.release),
  };
}

/** Returns the fingerprint of a request for its idempotency key: the SHA-256 of path and raw body. */
async function fingerprintOf(path: string, body: Uint8Array): Promise<string> {
  const head = new TextEncoder().encode(`${path}\n`);
  const whole = new Uint8Array(head.length + body.length);
  whole.set(head);
  whole.set(body, head.length);
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", whole)));
}
