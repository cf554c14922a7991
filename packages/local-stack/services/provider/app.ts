import { createHash, timingSafeEqual } from "node:crypto";
import type { HttpBindings } from "@hono/node-server";
import { Hono } from "hono";
import { behaviourOf, models } from "./behaviours.ts";
import { chatRoute } from "./chat-route.ts";
import { embeddingsRoute } from "./embeddings-route.ts";
import { invalidKey, invalidRequest, unknownModel } from "./errors.ts";
import { replayFixtures } from "./fixture-route.ts";
import { geminiFailure, geminiSpeechRoute } from "./gemini-speech.ts";
import { messagesError } from "./messages-errors.ts";
import { countTokensRoute, messagesRoute } from "./messages-route.ts";
import { createOutage, outageSchema } from "./outage.ts";
import { responsesRoute } from "./responses-route.ts";
import { speechRequest, synthesize } from "./speech.ts";
import { createTruthLog } from "./truth-log.ts";
import { countTokens } from "./usage.ts";

/**
 * A model provider with OpenAI's wire format, Anthropic's for messages and Gemini's for speech. Its answers depend only
 * on the request, and for messages also on cached prompts. `/truth` returns what each call has used, by `x-request-id`.
 * The model `fixture/<kind>/<case>` replays a recorded response. `PUT /outage` makes every call fail until `DELETE
 * /outage`.
 */
export function createProvider({ apiKey }: { apiKey: string }): Hono<{ Bindings: HttpBindings }> {
  const log = createTruthLog();
  const outage = createOutage();
  const digest = (text: string) => createHash("sha256").update(text).digest();
  const expected = digest(`Bearer ${apiKey}`);
  const app = new Hono<{ Bindings: HttpBindings }>();

  app.get("/healthz", (c) => c.json({ name: "provider", status: "ok" }));
  app.get("/truth", (c) => {
    const after = c.req.query("after");
    return c.json({
      calls: log.list({ requestId: c.req.query("request_id"), after: after === undefined ? undefined : Number(after) }),
    });
  });
  app.delete("/truth", (c) => {
    log.clear();
    return c.body(null, 204);
  });

  app.put("/outage", async (c) => {
    const parsedOutage = outageSchema.safeParse(await c.req.json().catch(() => undefined));
    if (!parsedOutage.success) return invalidRequest("There is no such outage.", null);
    outage.begin(parsedOutage.data);
    return c.body(null, 204);
  });
  app.delete("/outage", (c) => {
    outage.end();
    return c.body(null, 204);
  });

  app.use("/v1/*", async (c, next) => {
    const key = c.req.header("x-api-key");
    const credential = isAnthropic(c.req) ? `Bearer ${key}` : (c.req.header("authorization") ?? "");
    if (!timingSafeEqual(digest(credential), expected)) {
      return isAnthropic(c.req) ? messagesError(401, "invalid x-api-key") : invalidKey();
    }
    await next();
  });
  app.use("/v1/*", replayFixtures(log));
  app.use("/v1beta/*", async (c, next) => {
    const { authorization = "" } = c.req.header();
    const credential = c.req.path.startsWith("/v1beta/openai/")
      ? authorization
      : `Bearer ${c.req.header("x-goog-api-key")}`;
    if (!timingSafeEqual(digest(credential), expected)) return geminiFailure(401);
    await next();
  });
  // Gemini's OpenAI endpoint prefixes model ids with `models/`.
  app.get("/v1beta/openai/models", (c) =>
    c.json({
      object: "list",
      data: Object.keys(models).map((id) => ({ id: `models/${id}`, object: "model", owned_by: "google" })),
    }),
  );
  app.post("/v1beta/models/:call{.+:generateContent}", geminiSpeechRoute(log));
  app.get("/v1/models", (c) =>
    isAnthropic(c.req)
      ? c.json({ data: Object.keys(models).map(anthropicModel), has_more: false })
      : c.json({ object: "list", data: Object.keys(models).map(modelBody) }),
  );
  app.get("/v1/models/:id", (c) => {
    const id = c.req.param("id");
    return behaviourOf(id) ? c.json(modelBody(id)) : unknownModel(id);
  });
  app.post("/v1/chat/completions", chatRoute(log, outage));
  app.post("/v1/responses", responsesRoute(log, outage));
  app.post("/v1/messages", messagesRoute(log, outage));
  app.post("/v1/messages/count_tokens", countTokensRoute(log));

  app.post("/v1/embeddings", embeddingsRoute(log, outage));

  app.post("/v1/audio/speech", async (c) => {
    const parsed = speechRequest.safeParse(await c.req.json().catch(() => undefined));
    if (!parsed.success) return invalidRequest("The body asks for no speech.", "input");
    if (!behaviourOf(parsed.data.model)) return unknownModel(parsed.data.model);
    record(c.req, { model: parsed.data.model, input: countTokens(parsed.data.input) });
    const type = parsed.data.response_format === "pcm" ? "audio/pcm;rate=24000" : "audio/wav";
    return new Response(new Uint8Array(synthesize(parsed.data)), { headers: { "content-type": type } });
  });

  function record(
    request: { path: string; header: (name: string) => string | undefined },
    { model, input }: { model: string; input: number },
  ): void {
    const requestId = request.header("x-request-id") ?? null;
    const truth = log.begin({ requestId, path: request.path, model, stream: false });
    truth.usage = { input, cachedInput: 0, output: 0, reasoning: 0 };
    truth.status = 200;
    truth.endedAt = new Date().toISOString();
  }

  return app;
}

/** Returns whether a request is for Anthropic's API, which has its own header for the key. */
function isAnthropic(request: { path: string; header: (name: string) => string | undefined }): boolean {
  return request.path.startsWith("/v1/messages") || request.header("x-api-key") !== undefined;
}

function anthropicModel(id: string) {
  return { type: "model", id, display_name: id, created_at: "2026-01-01T00:00:00Z" };
}

function modelBody(id: string) {
  return { id, object: "model", created: 1_767_225_600, owned_by: "gatehouse-demo" };
}
