import type { Gateway } from "../calls/gateway.ts";
import type { PendingCall } from "../calls/surface.ts";
import { runLimitHeaders } from "../database/rate-limits.ts";
import { openaiErrors, toGatewayError } from "../http/errors.ts";
import { startTimeLimit } from "../http/time-limit.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";
import { failureEvent } from "./answer-call.ts";
import { bodyHeaders, createKeepalive } from "./keepalive.ts";

/** JSON may begin with whitespace (RFC 8259, 2). DeepSeek also sends empty lines before answers that take long. */
const blankLine = "\n";

/**
 * Returns the response of a call. If there is none after `beginMs`, begins a response with status 200, so that load
 * balancers and clients keep the connection. Its body has keepalives until the answer follows. A failure after that is
 * the stream's error event, or the error object in place of the JSON answer, as OpenRouter does it
 * (https://openrouter.ai/docs/api-reference/errors).
 */
export function beginInTime<Parsed extends ParsedRequest>(
  gateway: Gateway,
  call: PendingCall<Parsed>,
  answering: Promise<Response>,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const limit = startTimeLimit(gateway.limits.beginMs, () => {
      call.open.hasResponseBegun = true;
      resolve(earlyResponse(gateway, call, answering));
    });
    answering.then(resolve, reject).finally(limit.end);
  });
}

function earlyResponse<Parsed extends ParsedRequest>(
  gateway: Gateway,
  call: PendingCall<Parsed>,
  answering: Promise<Response>,
): Response {
  const { request, surface, open, requestId } = call;
  const { errors = openaiErrors } = surface;
  const answered = answering.catch((thrown) => {
    const error = toGatewayError(thrown);
    if (error.cause !== undefined) gateway.report(error.cause, requestId);
    return new Response(request.stream ? failureEvent(error, call) : JSON.stringify(errors.body(error, requestId)));
  });
  const keepalive = request.stream ? createKeepalive(call) : () => blankLine;
  const body = waitingBody(answered, { keepalive, keepaliveMs: gateway.limits.keepaliveMs });
  return new Response(body, { headers: { ...bodyHeaders(request), ...(open.run && runLimitHeaders(open.run)) } });
}

/** Returns a body that consists of keepalives until the answer is there, and then of the answer's body. */
function waitingBody(
  answered: Promise<Response>,
  { keepalive, keepaliveMs }: { keepalive: () => string; keepaliveMs: number },
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let body: ReadableStreamDefaultReader<Uint8Array> | undefined;
  // The first keepalive goes out with the headers.
  let waitMs = 0;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (!body) {
          const answer = await waitAtMost(waitMs, answered);
          waitMs = keepaliveMs;
          if (!answer) return controller.enqueue(encoder.encode(keepalive()));
          body = answer.body?.getReader();
        }
        const next = await body?.read();
        if (next?.value) controller.enqueue(next.value);
        else controller.close();
      },
      async cancel() {
        if (body) await body.cancel();
        else void answered.then((answer) => answer.body?.cancel());
      },
    },
    { highWaterMark: 0 },
  );
}

/** Returns what a promise resolves to, or undefined if that takes longer than `limitMs`. */
function waitAtMost<Result>(limitMs: number, work: Promise<Result>): Promise<Result | undefined> {
  return new Promise((resolve) => {
    const limit = startTimeLimit(limitMs, () => resolve(undefined));
    void work.then(resolve).finally(limit.end);
  });
}
