import type { AdmittedCall } from "./call.ts";
import { GatewayError } from "./errors.ts";
import type { Gateway } from "./gateway.ts";
import { ClientLeft, callProvider, type ProviderAnswer, ProviderFailure } from "./providers/provider.ts";
import { relayStream } from "./relay.ts";
import type { Asked } from "./surface.ts";
import { relayWholeAnswer } from "./whole-answer.ts";

/** Answers a call with one provider call, as it comes or whole. However that ends, the run is settled. */
export async function answerCall<Request extends Asked>(
  gateway: Gateway,
  call: AdmittedCall<Request>,
): Promise<Response> {
  try {
    const answer = await ask(gateway, call);
    return call.asked.stream ? streamed(gateway, call, answer) : await whole(call, answer);
  } catch (error) {
    throw settleFailure(error, call);
  }
}

async function ask<Request extends Asked>(gateway: Gateway, call: AdmittedCall<Request>): Promise<ProviderAnswer> {
  const { surface, asked, open, request } = call;
  const answer = await callProvider(
    {
      path: surface.path,
      routes: open.run.routes,
      providers: gateway.providers,
      bodyFor: (route) => surface.providerBody(asked, { route, workspaceId: open.run.workspace_id }),
      requestId: call.requestId,
      name: asked.model,
      clientLeft: request.signal,
      limits: gateway.limits,
      deadline: call.deadline,
      now: gateway.now,
      onAttempt: (route) => {
        call.dispatched ||= !request.signal.aborted;
        open.progress.route = route.position;
      },
    },
    open.addStep,
  );
  if (asked.stream && !answer.contentType.startsWith("text/event-stream")) {
    answer.cancel();
    open.addStep({ type: "model", name: asked.model, status: "failed" }, answer.startedAt);
    throw new ProviderFailure({ code: "provider_error", mayHaveCharged: true, retryable: false });
  }
  return answer;
}

function streamed<Request extends Asked>(
  { waitUntil }: Gateway,
  call: AdmittedCall<Request>,
  answer: ProviderAnswer,
): Response {
  const { surface, asked, open, request, requestId, usageBound, guessedInputTokens, headers } = call;
  const reader = surface.createReader?.(asked, { usageBound, runId: open.run.run_id });
  if (!reader) throw new Error(`${surface.feature} are never streamed`);
  const stream = relayStream({
    answer,
    reader,
    open,
    requestId,
    guessedInputTokens,
    name: asked.model,
    clientLeft: request.signal,
    waitUntil,
  });
  return new Response(stream, { headers: { ...headers, "content-type": "text/event-stream; charset=utf-8" } });
}

async function whole<Request extends Asked>(call: AdmittedCall<Request>, answer: ProviderAnswer): Promise<Response> {
  const { surface, asked, open, request, usageBound, guessedInputTokens, headers } = call;
  try {
    const text = await relayWholeAnswer({
      answer,
      open,
      readAnswer: surface.readAnswer,
      guessedInputTokens,
      usageBound,
      name: asked.model,
      clientLeft: request.signal,
    });
    return new Response(text, { headers: { ...headers, "content-type": "application/json" } });
  } catch (error) {
    const status = error instanceof ClientLeft ? "aborted" : "failed";
    open.addStep({ type: "model", name: asked.model, status }, answer.startedAt);
    throw error;
  }
}

/** Ends the run of a call that brought nothing, for whatever reason. @returns what the client is told */
function settleFailure<Request extends Asked>(error: unknown, call: AdmittedCall<Request>): unknown {
  const { open, dispatched, guessedInputTokens } = call;
  const route = open.progress.route;
  if (error instanceof ClientLeft) {
    const usage = { input_tokens: guessedInputTokens, output_tokens: 0 };
    open.end({
      status: "cancelled",
      httpStatus: 499,
      use: dispatched && route !== undefined ? { route, usage, basis: "guess" } : undefined,
      keyUnused: !dispatched,
    });
    return new GatewayError("provider_error");
  }
  const failure = error instanceof ProviderFailure ? error : undefined;
  const known = failure ? failure.toGatewayError() : error;
  open.end({
    status: "failed",
    httpStatus: known instanceof GatewayError ? known.status : 500,
    errorCode: known instanceof GatewayError ? known.code : "internal_error",
    use: failure?.use,
    keyUnused: failure ? !failure.mayHaveCharged : !dispatched,
  });
  return known;
}
