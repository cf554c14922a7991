import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import { giveAnswer } from "./answering.ts";
import { type Behaviour, behaviourOf } from "./behaviours.ts";
import { chatRequest, lastPrompt } from "./chat-request.ts";
import { chatEvents } from "./chat-stream.ts";
import { type Completion, complete } from "./completion.ts";
import { invalidRequest, unknownModel } from "./errors.ts";
import type { Outage } from "./outage.ts";
import type { TruthLog } from "./truth-log.ts";
import { completionUsage, noUsage } from "./usage.ts";

/** Serves `POST /v1/chat/completions`. */
export function chatRoute(log: TruthLog, outage: Outage) {
  return async (c: Context<{ Bindings: HttpBindings }>): Promise<Response> => {
    const parsed = chatRequest.safeParse(await c.req.json().catch(() => undefined));
    if (!parsed.success) {
      return invalidRequest("The body is not a chat request.", String(parsed.error.issues[0]?.path[0] ?? "") || null);
    }
    const request = parsed.data;
    const named = behaviourOf(request.model, lastPrompt(request));
    if (!named) return unknownModel(request.model);
    const fails = named.failsLater && request.messages.some(({ role }) => role === "tool");
    const behaviour: Behaviour = fails ? { ...named, failure: 500 } : named;
    const stream = request.stream === true;
    const requestId = c.req.header("x-request-id") ?? null;
    const truth = log.begin({ requestId, path: c.req.path, model: request.model, stream });
    const includeUsage = request.stream_options?.include_usage === true;
    return giveAnswer(c.env.outgoing, {
      behaviour: outage.over(behaviour),
      truth,
      answer() {
        const completion = complete(request, behaviour);
        if (stream) return { pieces: chatEvents(completion, { behaviour, includeUsage }) };
        return { body: completionBody(completion, behaviour), usage: completion.usage };
      },
    });
  };
}

function completionBody({ id, created, model, choices, usage }: Completion, behaviour: Behaviour) {
  const reportedUsage = completionUsage(behaviour.usage === "zero" ? noUsage : usage);
  return {
    id,
    object: "chat.completion",
    created,
    model,
    system_fingerprint: "fp_demo",
    choices: choices.map(({ text, reasoning, toolCall, finish }, index) => ({
      index,
      message: {
        role: "assistant",
        content: toolCall ? null : text,
        refusal: null,
        annotations: [],
        ...(reasoning ? { reasoning_content: reasoning } : {}),
        ...(toolCall ? { tool_calls: [toolCall] } : {}),
      },
      logprobs: null,
      finish_reason: finish,
    })),
    ...(behaviour.usage === "none" ? {} : { usage: reportedUsage }),
  };
}
