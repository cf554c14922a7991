import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import { giveAnswer } from "./answering.ts";
import { type Behaviour, behaviourOf } from "./behaviours.ts";
import { lastPrompt } from "./chat-request.ts";
import { answerMessage, promptTokens } from "./messages-answer.ts";
import { messagesError, messagesFailure, messagesMidwayError } from "./messages-errors.ts";
import { messageBody, messageEvents, usageOf } from "./messages-events.ts";
import { messagesRequest, promptRequest, toChatRequest } from "./messages-request.ts";
import type { Outage } from "./outage.ts";
import { createPromptCache } from "./prompt-cache.ts";
import type { TruthLog } from "./truth-log.ts";

type Route = (c: Context<{ Bindings: HttpBindings }>) => Promise<Response>;

/** Serves `POST /v1/messages`. */
export function messagesRoute(log: TruthLog, outage: Outage): Route {
  const cache = createPromptCache();
  return async (c) => {
    const parsed = messagesRequest.safeParse(await c.req.json().catch(() => undefined));
    const fault = faultOf(c) ?? (parsed.success ? undefined : `The body is not a message: ${parsed.error.message}`);
    if (fault !== undefined || !parsed.success) return messagesError(400, fault ?? "");
    const request = parsed.data;
    const chat = toChatRequest(request);
    const named = behaviourOf(request.model, lastPrompt(chat));
    if (!named) return messagesError(404, `model: ${request.model}`);
    const fails = named.failsLater && chat.messages.some(({ role }) => role === "tool");
    const behaviour: Behaviour = fails ? { ...named, failure: 500 } : named;
    const stream = request.stream === true;
    const requestId = c.req.header("x-request-id") ?? null;
    const truth = log.begin({ requestId, path: c.req.path, model: request.model, stream });
    return giveAnswer(c.env.outgoing, {
      behaviour: outage.over(behaviour),
      truth,
      dialect: { failure: messagesFailure, midwayError: messagesMidwayError },
      answer() {
        const answer = answerMessage(request, { behaviour, cache });
        if (stream) return { pieces: messageEvents(answer, behaviour) };
        return { body: messageBody(answer, behaviour), usage: usageOf(answer.use, answer.thinking) };
      },
    });
  };
}

/** Serves `POST /v1/messages/count_tokens`, which is free. */
export function countTokensRoute(log: TruthLog): Route {
  return async (c) => {
    const parsed = promptRequest.safeParse(await c.req.json().catch(() => undefined));
    const fault = faultOf(c) ?? (parsed.success ? undefined : "The body is not a prompt.");
    if (fault !== undefined || !parsed.success) return messagesError(400, fault ?? "");
    const { model } = parsed.data;
    if (!behaviourOf(model)) return messagesError(404, `model: ${model}`);
    const requestId = c.req.header("x-request-id") ?? null;
    const truth = log.begin({ requestId, path: c.req.path, model, stream: false });
    truth.status = 200;
    truth.endedAt = new Date().toISOString();
    return c.json({ input_tokens: promptTokens(parsed.data) });
  };
}

/** Every request must name a version (https://platform.claude.com/docs/en/api/versioning). */
function faultOf(c: Context): string | undefined {
  return c.req.header("anthropic-version") ? undefined : "anthropic-version: header is required";
}
