import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import { giveAnswer, openaiDialect } from "./answering.ts";
import { type Behaviour, behaviourOf } from "./behaviours.ts";
import { lastPrompt } from "./chat-request.ts";
import { complete } from "./completion.ts";
import { invalidRequest, unknownModel } from "./errors.ts";
import type { Outage } from "./outage.ts";
import { fullWindowEvents, responseBody, responseEvents } from "./responses-events.ts";
import { responsesRequest, toChatRequest } from "./responses-request.ts";
import type { TruthLog } from "./truth-log.ts";

/** Serves `POST /v1/responses`. Stores no responses for later requests. */
export function responsesRoute(log: TruthLog, outage: Outage) {
  return async (c: Context<{ Bindings: HttpBindings }>): Promise<Response> => {
    const parsed = responsesRequest.safeParse(await c.req.json().catch(() => undefined));
    if (!parsed.success) {
      return invalidRequest("The body asks for no response.", String(parsed.error.issues[0]?.path[0] ?? "") || null);
    }
    const request = toChatRequest(parsed.data);
    const named = behaviourOf(request.model, lastPrompt(request));
    if (!named) return unknownModel(request.model);
    const fails = named.failsLater && request.messages.some(({ role }) => role === "tool");
    const behaviour: Behaviour = fails ? { ...named, failure: 500 } : named;
    const stream = parsed.data.stream === true;
    const requestId = c.req.header("x-request-id") ?? null;
    const truth = log.begin({ requestId, path: c.req.path, model: request.model, stream });
    return giveAnswer(c.env.outgoing, {
      behaviour: outage.over(behaviour),
      truth,
      dialect: {
        ...openaiDialect,
        failure: (status) =>
          status === "full" && stream
            ? new Response(fullWindowEvents(), { headers: { "content-type": "text/event-stream" } })
            : openaiDialect.failure(status),
      },
      answer() {
        const completion = complete(request, behaviour);
        if (stream) return { pieces: responseEvents(completion, behaviour) };
        return { body: responseBody(completion, behaviour), usage: completion.usage };
      },
    });
  };
}
