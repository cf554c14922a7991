import { type Body, bodyLimits, parseJson } from "./body.ts";
import { readChatAnswer } from "./chat-answer.ts";
import { type Chat, providerBody, readChat } from "./chat-request.ts";
import { relayChatStream } from "./chat-stream.ts";
import { type Credential, hex, readCredential } from "./credentials.ts";
import { rateLimitHeaders } from "./database.ts";
import { GatewayError } from "./errors.ts";
import type { Gateway } from "./gateway.ts";
import type { Call, Handler } from "./http.ts";
import { type CallLabels, namedWorkspace, readLabels } from "./labels.ts";
import { ClientLeft, callProvider, type ProviderAnswer, ProviderFailure } from "./provider.ts";
import { type OpenRun, openRun } from "./run.ts";
import { guessTokens, ImplausibleUsage, type UsageBound, usageBound } from "./usage.ts";

const guessedTokensPerImage = 1_000;

/** `POST /v1/chat/completions` (api.md, Text). */
export function chatCompletions(gateway: Gateway): Handler {
  return async (call) => {
    const startedAt = gateway.now();
    const credential = await readCredential(call.request);
    const workspace = namedWorkspace(call.request.headers);
    const check = () => gateway.database.checkCredential({ credential, workspace });
    const body = await gateway.readBody(call.request, { limitBytes: bodyLimits.chat, check });
    try {
      return await admit(gateway, { ...call, credential, check, body, startedAt });
    } finally {
      body.release();
    }
  };
}

type Arrived = Call & { credential: Credential; check: () => Promise<string>; body: Body; startedAt: number };

async function admit(gateway: Gateway, { request, requestId, credential, check, body, startedAt }: Arrived) {
  const { chat, labels } = await readOrAuthenticate(check, () => ({
    labels: readLabels(request),
    chat: readChat(parseJson(request, body.bytes), body.bytes.byteLength),
  }));
  const fingerprint = labels.idempotencyKey === undefined ? undefined : await fingerprintOf(request, body.bytes);
  const run = await gateway.database.beginRun({
    ...runRequest(gateway, { chat, labels, credential, requestId }),
    fingerprint,
  });
  const call = { chat, open: openRun(gateway, run, startedAt), requestId, request };
  try {
    const answer = await ask(gateway, call);
    const answered = { ...call, answer, headers: rateLimitHeaders(run.limits) };
    return chat.request.stream ? streamed(gateway, answered) : await whole(gateway, answered);
  } catch (error) {
    throw settleFailure(error, call);
  }
}

type ChatCall = { chat: Chat; open: OpenRun; dispatched?: boolean } & Pick<Call, "request" | "requestId">;
type Answered = ChatCall & { answer: ProviderAnswer; headers: Record<string, string> };

/** Whoever has no good credential is told that and nothing of their body: 401 and 403 come before 400. */
async function readOrAuthenticate<Result>(check: () => Promise<unknown>, read: () => Result): Promise<Result> {
  try {
    return read();
  } catch (error) {
    await check();
    throw error;
  }
}

function runRequest(
  { providers }: Gateway,
  call: { chat: Chat; labels: CallLabels; credential: Credential; requestId: string },
) {
  const { chat, labels } = call;
  return {
    credential: call.credential,
    workspace: labels.workspace,
    request_id: call.requestId,
    feature: labels.operation ?? "chat",
    entity_id: labels.entityId,
    idempotency_key: labels.idempotencyKey,
    kind: "chat" as const,
    streamed: chat.request.stream === true,
    model: chat.request.model,
    providers: [...providers.keys()],
    input_bytes: chat.inputBytes,
    images: chat.images,
    audio: chat.audio,
    output_limit: chat.outputLimit,
    choices: chat.choices,
  };
}

async function ask(gateway: Gateway, call: ChatCall): Promise<ProviderAnswer> {
  const { chat, open, request, requestId } = call;
  const answer = await callProvider(
    {
      path: "/chat/completions",
      routes: open.run.routes,
      providers: gateway.providers,
      bodyFor: (route) => providerBody(chat, route, open.run.workspace_id),
      requestId,
      name: chat.request.model,
      clientLeft: request.signal,
      limits: gateway.limits,
      now: gateway.now,
      onAttempt: (route) => {
        call.dispatched ||= !request.signal.aborted;
        open.progress.route = route.position;
      },
    },
    open.addStep,
  );
  if (chat.request.stream && !answer.contentType.startsWith("text/event-stream")) {
    answer.cancel();
    open.addStep({ type: "model", name: chat.request.model, status: "failed" }, answer.startedAt);
    throw new ProviderFailure({ code: "provider_error", mayHaveCharged: true, retryable: false });
  }
  return answer;
}

/** Ends the run of a call that brought nothing, for whatever reason. @returns what the client is told */
function settleFailure(error: unknown, { chat, open, dispatched = false }: ChatCall): unknown {
  const route = open.run.routes.find(({ position }) => position === open.progress.route);
  if (error instanceof ClientLeft) {
    open.end({
      status: "cancelled",
      httpStatus: 499,
      route,
      usage: dispatched ? { input_tokens: guessInputTokens(chat), output_tokens: 0 } : {},
      source: dispatched ? "estimated_partial" : "unavailable",
      estimated: true,
      keyUnused: !dispatched,
    });
    return new GatewayError("provider_error");
  }
  const known = error instanceof ProviderFailure ? error.toGatewayError() : error;
  open.end({
    status: "failed",
    httpStatus: known instanceof GatewayError ? known.status : 500,
    errorCode: known instanceof GatewayError ? known.code : "internal_error",
    route,
    usage: {},
    source: "unavailable",
    estimated: false,
    keyUnused: error instanceof ProviderFailure ? !error.mayHaveCharged : !dispatched,
  });
  return known;
}

function streamed(gateway: Gateway, { chat, open, request, requestId, answer, headers }: Answered): Response {
  const stream = relayChatStream({
    answer,
    open,
    requestId,
    keepUsageChunk: chat.request.stream_options?.include_usage === true,
    guessedInputTokens: guessInputTokens(chat),
    usageBound: boundOf(gateway, { chat, requestId }),
    name: chat.request.model,
    clientLeft: request.signal,
    waitUntil: gateway.waitUntil,
  });
  return new Response(stream, { headers: { ...headers, "content-type": "text/event-stream; charset=utf-8" } });
}

async function whole(gateway: Gateway, { chat, open, requestId, answer, headers }: Answered): Promise<Response> {
  try {
    const text = await readChatAnswer({
      answer,
      open,
      guessedInputTokens: guessInputTokens(chat),
      usageBound: boundOf(gateway, { chat, requestId }),
      name: chat.request.model,
    });
    return new Response(text, { headers: { ...headers, "content-type": "application/json" } });
  } catch (error) {
    const status = error instanceof ClientLeft ? "aborted" : "failed";
    open.addStep({ type: "model", name: chat.request.model, status }, answer.startedAt);
    throw error;
  }
}

function boundOf({ report }: Gateway, { chat, requestId }: Pick<ChatCall, "chat" | "requestId">): UsageBound {
  let told = false;
  const exceeded = () => {
    if (!told) report(new ImplausibleUsage(), requestId);
    told = true;
  };
  return { ...usageBound(chat), exceeded };
}

function guessInputTokens({ inputBytes, images }: Chat): number {
  return guessTokens(inputBytes) + images * guessedTokensPerImage;
}

/** What an idempotency key is bound to: SHA-256 of path and raw body. */
async function fingerprintOf(request: Request, body: Uint8Array): Promise<string> {
  const path = new TextEncoder().encode(`${new URL(request.url).pathname}\n`);
  const whole = new Uint8Array(path.length + body.length);
  whole.set(path);
  whole.set(body, path.length);
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", whole)));
}
