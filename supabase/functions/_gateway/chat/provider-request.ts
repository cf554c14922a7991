import type { ProviderTarget } from "../calls/surface.ts";
import { stringifyWithSource } from "../http/source-json.ts";
import type { AssistantTurn, Hint, ProviderKind } from "../providers/kinds/kind.ts";
import type { ProviderRequest } from "../providers/provider.ts";
import { tenantCacheKey } from "../requests/prompt-cache-key.ts";
import type { Chat } from "./request.ts";

type Members = Record<string, unknown>;

/**
 * Builds the provider's request: the client's fields in the form that the provider's kind accepts, with the output
 * limit that the reservation is based on.
 */
export function chatProviderRequest(
  { body: clientBody, others = {}, outputLimit }: Pick<Chat, "body" | "others" | "outputLimit">,
  { route, provider: { kind }, workspaceId }: Pick<ProviderTarget, "route" | "provider" | "workspaceId">,
): ProviderRequest {
  const { stream, stream_options, max_tokens, max_completion_tokens, prompt_cache_key, ...fields } = clientBody;
  const body: Members = {
    ...pick(others, kind.passes ?? []),
    ...fields,
    messages: fields.messages.map((message) => adaptMessage(kind, message as Members)),
    model: route.model,
    [kind.outputLimit]: outputLimit,
    service_tier: chooseServiceTier(fields, kind),
    prompt_cache_key: prompt_cache_key === undefined ? undefined : tenantCacheKey(workspaceId, prompt_cache_key),
  };
  for (const hint of kind.leftOut) if (isIgnorableHint(hint, body[hint])) delete body[hint];
  for (const [name, other] of Object.entries(kind.renamed ?? {})) {
    if (body[name] !== undefined) body[other] = body[name];
    delete body[name];
  }
  if (stream) {
    body.stream = true;
    const streamOptions: Members = { ...stream_options, include_usage: true };
    if (kind.streamOptions.length > 0) body.stream_options = pick(streamOptions, kind.streamOptions);
  }
  return { endpoint: "chat", body: stringifyWithSource(body) };
}

/**
 * Returns the service tier to request. Replaces `auto` with the provider's default tier, because `auto` lets the
 * provider's project settings choose the tier and thus the price.
 */
export function chooseServiceTier({ service_tier }: { service_tier?: string }, kind: ProviderKind): string | undefined {
  return service_tier === "auto" || service_tier === undefined ? kind.defaultServiceTier : service_tier;
}

/**
 * Returns whether a provider may ignore a field. A service tier with its own price changes the bill, so it must not be
 * ignored.
 */
function isIgnorableHint(name: Hint, value: unknown): boolean {
  return name !== "service_tier" || value === "default" || value === undefined;
}

function adaptMessage({ developerIsSystem, turn }: ProviderKind, message: Members): Members {
  if (developerIsSystem && message.role === "developer") return { ...message, role: "system" };
  if (turn && message.role === "assistant") return assistantMessage(message, turn);
  return turn?.idLength && message.role === "tool"
    ? { ...message, tool_call_id: shortId(message.tool_call_id, turn) }
    : message;
}

function assistantMessage(message: Members, turn: AssistantTurn): Members {
  const { message: members, toolCall, required } = turn;
  const supported = pick(message, ["role", "content", "tool_calls", ...members]);
  if (Array.isArray(supported.content)) supported.content = filterParts(turn, supported.content);
  if (!Array.isArray(supported.tool_calls) || supported.tool_calls.length === 0) return supported;
  if (required !== undefined) supported[required] ??= "";
  const tool_calls = supported.tool_calls.map((call) => ({
    ...pick(call, ["id", "type", "function", "custom", ...toolCall]),
    id: shortId(call.id, turn),
  }));
  return { ...supported, tool_calls };
}

/**
 * Returns the message parts that a provider's kind accepts, without another provider's thinking parts. Returns null if
 * none are left.
 */
function filterParts({ parts = [] }: AssistantTurn, content: readonly Members[]): readonly Members[] | null {
  const known = content.filter(({ type }) => ["text", "refusal", ...parts].includes(type as string));
  if (known.length === content.length) return content;
  return known.length > 0 ? known : null;
}

/**
 * Converts a tool call's id to the length that the provider requires. Equal ids stay equal, so a tool call and its
 * result still match.
 */
function shortId(id: unknown, { idLength }: AssistantTurn): unknown {
  if (idLength === undefined || typeof id !== "string") return id;
  return id
    .replace(/[^A-Za-z0-9]/g, "")
    .slice(-idLength)
    .padStart(idLength, "0");
}

/** Returns the named members that an object has. */
function pick(from: Members, names: readonly string[]): Members {
  const picked: Members = {};
  for (const name of names) if (from[name] !== undefined) picked[name] = from[name];
  return picked;
}
