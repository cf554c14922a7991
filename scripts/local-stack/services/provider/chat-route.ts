import type { ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { Context } from "hono";
import { type Behaviour, behaviourOf } from "./behaviours.ts";
import { chatRequest, lastPrompt } from "./chat-request.ts";
import { cutConnection, streamCompletion, untilLeft } from "./chat-stream.ts";
import { type Completion, complete } from "./completion.ts";
import { failureResponse, invalidRequest, unknownModel } from "./errors.ts";
import type { Truth, TruthLog } from "./truth-log.ts";
import { completionUsage } from "./usage.ts";

/** Serves `POST /v1/chat/completions`. */
export function chatRoute(log: TruthLog) {
  return async (c: Context<{ Bindings: HttpBindings }>): Promise<Response> => {
    const parsed = chatRequest.safeParse(await c.req.json().catch(() => undefined));
    if (!parsed.success)
      return invalidRequest("The body is no chat.", String(parsed.error.issues[0]?.path[0] ?? "") || null);
    const request = parsed.data;
    const behaviour = behaviourOf(request.model, lastPrompt(request));
    if (!behaviour) return unknownModel(request.model);
    const stream = request.stream === true;
    const requestId = c.req.header("x-request-id") ?? null;
    const truth = log.begin({ requestId, path: c.req.path, model: request.model, stream });
    const { outgoing } = c.env;
    const left = leaving(outgoing, truth);
    try {
      if (behaviour.firstByteMs > 0) await sleep(behaviour.firstByteMs, undefined, { signal: left });
      if (behaviour.failure) return await fail(behaviour.failure, outgoing, left);
      const completion = complete(request, behaviour);
      const includeUsage = request.stream_options?.include_usage === true;
      if (stream) await streamCompletion(outgoing, completion, { behaviour, includeUsage, truth, left });
      else await sendCompletion(outgoing, completion, { behaviour, truth, left });
    } catch (error) {
      if (!left.aborted) throw error;
    }
    return RESPONSE_ALREADY_SENT;
  };
}

/** Tells of a client that leaves before its answer has ended, and completes the truth about the call. */
function leaving(outgoing: ServerResponse, truth: Truth): AbortSignal {
  const controller = new AbortController();
  outgoing.once("close", () => {
    truth.endedAt = new Date().toISOString();
    truth.status = outgoing.headersSent ? outgoing.statusCode : null;
    if (outgoing.writableFinished) return;
    truth.aborted = outgoing.errored === null;
    controller.abort();
  });
  return controller.signal;
}

async function fail(
  failure: NonNullable<Behaviour["failure"]>,
  outgoing: ServerResponse,
  left: AbortSignal,
): Promise<Response> {
  if (failure === "redirect") return new Response(null, { status: 302, headers: { location: "/v1/models" } });
  if (failure === "reset") cutConnection(outgoing);
  else if (failure === "hang") await untilLeft(left);
  else return failureResponse(failure);
  return RESPONSE_ALREADY_SENT;
}

async function sendCompletion(
  outgoing: ServerResponse,
  completion: Completion,
  { behaviour, truth, left }: { behaviour: Behaviour; truth: Truth; left: AbortSignal },
): Promise<void> {
  truth.usage = completion.usage;
  truth.usageReported = behaviour.usage !== "none" && behaviour.midway === undefined;
  const whole = JSON.stringify(completionBody(completion, behaviour));
  const body = behaviour.midway === "garbage" ? "<html>no JSON at all" : whole;
  outgoing.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  if (behaviour.midway === "cut" || behaviour.midway === "stall") {
    outgoing.write(body.slice(0, body.length / 2));
    if (behaviour.midway === "stall") await untilLeft(left);
    return cutConnection(outgoing);
  }
  outgoing.end(body);
}

function completionBody(completion: Completion, behaviour: Behaviour) {
  const { id, created, model, choices } = completion;
  const zero = { input: 0, cachedInput: 0, output: 0, reasoning: 0 };
  const usage = behaviour.usage === "zero" ? zero : completion.usage;
  return {
    id,
    object: "chat.completion",
    created,
    model,
    system_fingerprint: "fp_demo",
    choices: choices.map(({ text, toolCall, finish }, index) => ({
      index,
      message: {
        role: "assistant",
        content: toolCall ? null : text,
        refusal: null,
        ...(toolCall ? { tool_calls: [toolCall] } : {}),
      },
      logprobs: null,
      finish_reason: finish,
    })),
    ...(behaviour.usage === "none" ? {} : { usage: completionUsage(usage) }),
  };
}
