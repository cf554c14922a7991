import type { AnswerFormat } from "../_gateway/answers/answer-format.ts";
import { readWholeAnswer } from "../_gateway/answers/whole-answer.ts";
import type { Gateway } from "../_gateway/calls/gateway.ts";
import type { Surface } from "../_gateway/calls/surface.ts";
import { chatFormat, chatSurface } from "../_gateway/chat/surface.ts";
import { embeddingsFormat, embeddingsSurface } from "../_gateway/embeddings/surface.ts";
import { GatewayError } from "../_gateway/http/errors.ts";
import { messagesFormat, messagesSurface } from "../_gateway/messages/surface.ts";
import { createCooldowns } from "../_gateway/providers/cooldowns.ts";
import { callProvider, type ProviderCall } from "../_gateway/providers/provider.ts";
import type { ProviderAnswer } from "../_gateway/providers/provider-answer.ts";
import { ClientLeft, ProviderFailure } from "../_gateway/providers/provider-failure.ts";
import type { ParsedRequest } from "../_gateway/requests/parsed-request.ts";
import { responsesFormat, responsesSurface } from "../_gateway/responses/surface.ts";
import { readGeminiSpeech } from "../_gateway/speech/gemini-answer.ts";
import { speechSurface } from "../_gateway/speech/surface.ts";
import type { CallUse, UsageLimits } from "../_gateway/usage/usage.ts";
import type { Attempt } from "../_shared/attempt.ts";
import {
  type RouteTestAnswer,
  type RouteTestRequest,
  routeTestMs,
  type TestedEndpoint,
} from "../_shared/provider-setup.ts";

/**
 * The output limit of a test. Reasoning counts in it, and OpenAI's models may answer 400 if they reach the limit before
 * any text (https://github.com/grafana/grafana-llm-app/pull/780), so it is far above what the answer needs.
 */
const outputTokens = 1_024;
const text = "Say ok.";
/** The request names a model only because its schema requires one. The provider gets the route's. */
const model = "test";
const messages = [{ role: "user", content: text }];

/** The short request of a surface, and the reader of its answer. */
type PreparedCall = {
  request: ParsedRequest;
  requestFor: (target: { voice?: string }) => ProviderCall["requestFor"];
  readUse: (answer: ProviderAnswer) => Promise<CallUse>;
};

const preparedCalls: Record<TestedEndpoint, () => PreparedCall> = {
  chat: () => prepareCall(chatSurface, { format: chatFormat, body: { model, messages, max_tokens: outputTokens } }),
  responses: () =>
    prepareCall(responsesSurface, {
      format: responsesFormat,
      body: { model, input: text, max_output_tokens: outputTokens },
    }),
  messages: () =>
    prepareCall(messagesSurface, { format: messagesFormat, body: { model, messages, max_tokens: outputTokens } }),
  embeddings: () => prepareCall(embeddingsSurface, { format: embeddingsFormat, body: { model, input: text } }),
  speech: prepareSpeech,
};

function prepareCall<Parsed extends ParsedRequest>(
  surface: Surface<Parsed>,
  { format: { readAnswer }, body }: { format: Pick<AnswerFormat<Parsed>, "readAnswer">; body: object },
): PreparedCall {
  const { request, requestFor } = prepareRequest(surface, body);
  const call = { inputEstimate: request.inputEstimate, usageLimits: limitsOf(request) };
  return { request, requestFor, readUse: async (answer) => (await readWholeAnswer(answer, call, { readAnswer })).use };
}

function prepareSpeech(): PreparedCall {
  const { request, requestFor } = prepareRequest(speechSurface, { input: text });
  const { inputEstimate } = request;
  const usageLimits = limitsOf(request);
  return {
    request,
    requestFor,
    readUse: async (answer) => (await readGeminiSpeech(answer, { inputEstimate, usageLimits })).use,
  };
}

function prepareRequest<Parsed extends ParsedRequest>(surface: Surface<Parsed>, body: object) {
  const request = surface.read(body, JSON.stringify(body).length, new Headers());
  const requestFor: PreparedCall["requestFor"] = (target) => (route, provider) =>
    surface.request(request, { ...target, route, provider, workspaceId: "" });
  return { request, requestFor };
}

function limitsOf({ outputLimit, choices }: ParsedRequest): UsageLimits {
  return { outputLimit, choices };
}

/**
 * Sends one short request to a provider, in the same way as a caller's. The test is not a run: nothing is reserved,
 * charged or recorded, and it doesn't change the cooldowns of routes. The limits of the provider count it.
 * @throws GatewayError `invalid_request` naming the member that the provider can't serve
 */
export async function testRoute(
  gateway: Pick<Gateway, "database" | "limits" | "now" | "providers">,
  test: RouteTestRequest & { requestId: string; signal: AbortSignal },
): Promise<RouteTestAnswer> {
  assertServable(gateway, test);
  const { database, limits, now, providers } = gateway;
  const { request, requestFor, readUse } = preparedCalls[test.endpoint]();
  const route = { position: 1, provider: test.provider, model: test.model, prices: [], limited: true };
  const startedAt = now();
  const limitMs = Math.min(routeTestMs, limits.totalMs);
  let failed: Attempt | undefined;
  const call: ProviderCall = {
    open: {
      attempts: [],
      addStep(_step, _startedAt, attempt) {
        failed = attempt;
      },
      finishCall() {},
    },
    routes: [route],
    providers,
    // A test says nothing about the calls of others.
    cooldowns: createCooldowns({ now }),
    endpoint: test.endpoint,
    stream: false,
    requestFor: requestFor(test.voice === undefined ? {} : { voice: test.voice }),
    requestId: test.requestId,
    name: test.model,
    clientLeft: test.signal,
    limits: { ...limits, firstByteMs: limitMs, idleMs: limitMs, totalMs: limitMs },
    deadline: startedAt + limitMs,
    now,
    takeCall: (take) =>
      database.takeProviderCall({
        ...take,
        input_bytes: request.inputBytes,
        images: request.images,
        audio_seconds: request.audioSeconds,
        output_tokens: request.outputLimit * request.choices,
        context_window: undefined,
      }),
    estimate: ({ position }) => ({ route: position, usage: request.inputEstimate, basis: "guess" }),
  };
  try {
    return await callProvider<RouteTestAnswer>(call, async (answer) => {
      const { usage, basis, servedTier = null } = await readUse(answer);
      const { latency_ms: latencyMs, upstream_request_id: upstreamRequestId = null } = answer.attempt();
      return { ok: true, latencyMs, upstreamRequestId, usage, estimated: basis !== "final", servedTier };
    });
  } catch (error) {
    if (!(error instanceof ProviderFailure) && !(error instanceof ClientLeft)) throw error;
    const failure = error instanceof ProviderFailure ? error : undefined;
    return {
      ok: false,
      latencyMs: Math.round(now() - startedAt),
      upstreamRequestId: failed?.upstream_request_id ?? null,
      failure: failure?.failure ?? "cancelled",
      status: failed?.status ?? null,
      retryAfterSeconds: failure?.retryAfterSeconds ?? null,
    };
  }
}

function assertServable({ providers }: Pick<Gateway, "providers">, test: RouteTestRequest): void {
  const provider = providers.get(test.provider);
  if (!provider) throw invalid("provider", "The functions have no settings for this provider.");
  if (!provider.kind.endpoints[test.endpoint]) throw invalid("endpoint", "The provider has no such endpoint.");
  if (test.endpoint === "speech" && test.voice === undefined) throw invalid("voice", "Speech needs a voice.");
}

function invalid(param: string, message: string): GatewayError {
  return new GatewayError("invalid_request", { param, message });
}
