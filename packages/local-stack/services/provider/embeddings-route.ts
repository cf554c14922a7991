import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import { giveAnswer } from "./answering.ts";
import { behaviourOf } from "./behaviours.ts";
import { embed, embeddingsRequest } from "./embeddings.ts";
import { invalidRequest, unknownModel } from "./errors.ts";
import type { Outage } from "./outage.ts";
import type { TruthLog } from "./truth-log.ts";
import { noUsage } from "./usage.ts";

/** Serves `POST /v1/embeddings`. */
export function embeddingsRoute(log: TruthLog, outage: Outage) {
  return async (c: Context<{ Bindings: HttpBindings }>): Promise<Response> => {
    const parsed = embeddingsRequest.safeParse(await c.req.json().catch(() => undefined));
    if (!parsed.success) return invalidRequest("The body asks for no embeddings.", "input");
    const request = parsed.data;
    const behaviour = behaviourOf(request.model);
    if (!behaviour) return unknownModel(request.model);
    const requestId = c.req.header("x-request-id") ?? null;
    const truth = log.begin({ requestId, path: c.req.path, model: request.model, stream: false });
    return giveAnswer(c.env.outgoing, {
      behaviour: outage.over(behaviour),
      truth,
      answer() {
        const { usage, ...answer } = embed(request);
        const reportedUsage = behaviour.usage === "zero" ? { prompt_tokens: 0, total_tokens: 0 } : usage;
        const body = behaviour.usage === "none" ? answer : { ...answer, usage: reportedUsage };
        return { body, usage: { ...noUsage, input: usage.prompt_tokens } };
      },
    });
  };
}
