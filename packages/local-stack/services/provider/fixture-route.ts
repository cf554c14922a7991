import type { MiddlewareHandler } from "hono";
import { z } from "zod";
import { readFixture } from "./fixtures.ts";
import type { TruthLog } from "./truth-log.ts";

const namesFixture = z.looseObject({
  model: z.string().regex(/^fixture\/[\w-]+\/[\w-]+$/),
  stream: z.boolean().nullish(),
});

/** Answers a call of the model `fixture/<kind>/<case>` with that fixture, ignoring the messages. */
export function replayFixtures(log: TruthLog): MiddlewareHandler {
  return async (c, next) => {
    const parsed =
      c.req.method === "POST" ? namesFixture.safeParse(await c.req.json().catch(() => undefined)) : undefined;
    if (!parsed?.success) return next();
    const { model, stream } = parsed.data;
    const { status, events, text } = readFixture(model.replace("fixture/", ""));
    const requestId = c.req.header("x-request-id") ?? null;
    const truth = log.begin({ requestId, path: c.req.path, model, stream: stream === true });
    truth.status = status;
    truth.usageReported = true;
    truth.endedAt = new Date().toISOString();
    return new Response(text, {
      status,
      headers: { "content-type": events ? "text/event-stream" : "application/json" },
    });
  };
}
