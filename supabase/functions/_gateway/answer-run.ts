import { refuseEndpoint } from "./admission/endpoints.ts";
import type { CallFacts } from "./admission/refused-calls.ts";
import { checkStrictMode } from "./admission/strict-mode.ts";
import { settleFailure } from "./answers/answer-call.ts";
import { beginInTime } from "./answers/begin-response.ts";
import { replayAnswer } from "./answers/replay-answer.ts";
import type { Gateway } from "./calls/gateway.ts";
import { answerUnlessStopped, followEnvelope } from "./calls/held-calls.ts";
import type { AdmittedCall, PendingCall, Surface } from "./calls/surface.ts";
import type { Caller, Run, RunRequest, StoredAnswer } from "./database/database.ts";
import type { Body } from "./http/body.ts";
import { dropInput, type ParsedRequest } from "./requests/parsed-request.ts";
import { maxStoredSize } from "./runs/captured-content.ts";
import { openRun } from "./runs/run.ts";

/** A call whose body is read and valid, and what the database needs to begin its run. */
export type ReadCall<Parsed extends ParsedRequest> = {
  httpRequest: Request;
  requestId: string;
  path: string;
  caller: Caller;
  body: Body;
  /** The size of the body in bytes. */
  size: number;
  startedAt: number;
  /** The time by which the whole call must have ended, on the gateway's clock. */
  deadline: number;
  facts: CallFacts;
  request: Parsed;
  runRequest: Omit<RunRequest, "run_id_suffix">;
};

/** Begins a run. @throws GatewayError that says whether the model is served at another endpoint */
export function beginRun(
  gateway: Gateway,
  { caller, runRequest }: Pick<ReadCall<ParsedRequest>, "caller" | "runRequest">,
): ReturnType<Gateway["beginRun"]> {
  const { kind, model } = runRequest;
  return gateway
    .beginRun(runRequest)
    .catch((error) => refuseEndpoint(error, gateway, { caller, kind, ...(model === undefined ? {} : { model }) }));
}

/** Answers a call whose run has begun, or whose answer is stored. */
export function answerRun<Parsed extends ParsedRequest>(
  gateway: Gateway,
  surface: Surface<Parsed>,
  call: ReadCall<Parsed> & {
    run: Run | StoredAnswer;
    /** The call while it waited for its envelope, if it has. Its response may have begun. */
    pending?: PendingCall<Parsed>;
  },
): Response | Promise<Response> {
  const { httpRequest, requestId, path, body, size, startedAt, deadline, facts, request, run, pending } = call;
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
    labels: { requestId, path, feature: call.runRequest.feature },
    onEnd() {
      held?.release();
      (largeBody ?? body).release();
    },
  });
  const storing = size > maxStoredSize ? undefined : open.content.storePrompt(body.bytes);
  body.discardBytes();
  const largeBody = body.isLarge ? createLargeBody(body, { request, storing }) : undefined;
  const { envelope } = run;
  const clientSignal = httpRequest.signal;
  const held = envelope ? followEnvelope(gateway.watchEnvelope, { run, envelope, clientSignal }) : undefined;
  const admitted: AdmittedCall<Parsed> = {
    surface,
    request,
    requestId,
    clientSignal: held?.signal ?? clientSignal,
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
    deadline,
  };
  if (pending) {
    open.hasResponseBegun = pending.open.hasResponseBegun;
    pending.open = open;
  }
  const refusal = checkStrictMode(run, { request, providers: gateway.providers });
  if (refusal) throw settleFailure(refusal, admitted);
  const answer = surface.answer(gateway, admitted);
  // Keeps the isolate alive until the run has ended, even if the client disconnects.
  gateway.waitUntil(answer.catch(() => {}));
  const answering = held ? answerUnlessStopped(answer, held.signal) : answer;
  return pending || surface.beginsWithAnswer ? answering : beginInTime(gateway, admitted, answering);
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
