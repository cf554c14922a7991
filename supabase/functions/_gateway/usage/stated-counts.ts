import { isObject } from "../../_shared/json.ts";

/** A count that providers may state. */
type StatedCount =
  | "input"
  | "toolInput"
  | "output"
  | "total"
  | "cacheReads"
  | "cacheWrites"
  | "cacheWrites5m"
  | "cacheWrites1h"
  | "audioInput"
  | "imageInput"
  | "audioOutput"
  | "reasoning"
  | "citations"
  | "searches"
  | "sources";

/** The counts that could be read from a usage object. */
export type StatedCounts = Partial<Record<StatedCount, number>>;

type Place = "usage" | "inputDetails" | "outputDetails";

/** Maps the member names in a usage object and its details to the counts that they state. */
const names: Record<Place, ReadonlyMap<string, StatedCount>> = {
  usage: new Map([
    // OpenAI's chat completions state prompt and completion tokens. OpenAI's responses and Anthropic's messages state
    // input and output tokens.
    ["prompt_tokens", "input"],
    ["completion_tokens", "output"],
    ["input_tokens", "input"],
    ["output_tokens", "output"],
    ["total_tokens", "total"],
    ["reasoning_tokens", "reasoning"],
    // Gemini: https://ai.google.dev/api/generate-content#UsageMetadata
    ["promptTokenCount", "input"],
    ["toolUsePromptTokenCount", "toolInput"],
    ["candidatesTokenCount", "output"],
    ["responseTokenCount", "output"],
    ["thoughtsTokenCount", "reasoning"],
    ["totalTokenCount", "total"],
    // Bedrock's own API: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_TokenUsage.html
    ["inputTokens", "input"],
    ["outputTokens", "output"],
    ["totalTokens", "total"],
    // Ollama's own API: https://docs.ollama.com/api
    ["prompt_eval_count", "input"],
    ["eval_count", "output"],
    // Perplexity: https://docs.perplexity.ai/api-reference/sonar-post
    ["citation_tokens", "citations"],
    ["num_search_queries", "searches"],
    // xAI: https://docs.x.ai/docs/api-reference#chat-completions
    ["num_sources_used", "sources"],
    ["num_server_side_tools_used", "searches"],
    ["web_search_requests", "searches"],
    // Azure reports this count for other vendors' models:
    // https://github.com/vercel/ai/tree/main/packages/azure/src/__fixtures__
    ["audio_prompt_tokens", "audioInput"],
  ]),
  inputDetails: new Map([
    ["audio_tokens", "audioInput"],
    ["image_tokens", "imageInput"],
  ]),
  outputDetails: new Map([
    ["audio_tokens", "audioOutput"],
    ["reasoning_tokens", "reasoning"],
    // Anthropic (`OutputTokensDetails` of github.com/anthropics/anthropic-sdk-typescript)
    ["thinking_tokens", "reasoning"],
  ]),
};

/**
 * Returns which count a usage field with this name states. Recognizes cached tokens by parts of the name, because every
 * provider names them differently: `cached_tokens`, `prompt_cache_hit_tokens`, `cache_read_input_tokens`,
 * `cache_write_tokens` or `cached_creation_tokens`. Cache writes of one lifetime have names such as
 * `ephemeral_1h_input_tokens`, `cache_creation_5m_input_tokens` or `claude_cache_creation_1_h_tokens`.
 */
export function findStatedCount(name: string, place: Place): StatedCount | undefined {
  const ofCache = place !== "outputDetails" && /cache|ephemeral/i.test(name) && /token/i.test(name);
  if (!ofCache) return names[place].get(name);
  if (/writ|creat|ephemeral/i.test(name)) return findCacheWriteCount(name) ?? "cacheWrites";
  return /uncache|no[nt]?_?cache|miss/i.test(name) ? undefined : "cacheReads";
}

/** Returns the cache writes whose lifetime a name or a `ttl` contains. */
function findCacheWriteCount(text: unknown): StatedCount | undefined {
  const lifetime = typeof text === "string" ? /(?<!\d)(?:(1)_?h|(5)_?m)/i.exec(text) : null;
  return lifetime ? (lifetime[1] ? "cacheWrites1h" : "cacheWrites5m") : undefined;
}

/** Objects inside a usage object that contain more counts. */
const nested: readonly [RegExp, Place][] = [
  [/^(?:prompt|input)_tokens?_details$/, "inputDetails"],
  [/^(?:completion|output)_tokens?_details$/, "outputDetails"],
  // Anthropic's searches: https://platform.claude.com/docs/en/api/messages
  [/^server_tool_use$/, "usage"],
];

/**
 * Matches objects with cache writes by lifetime: Anthropic's `cache_creation`, and the names that gateways give it, such
 * as LiteLLM's `cache_creation_token_details`.
 */
const writeDetails = /^cached?_?(?:creation|write)(?:_?tokens?)?(?:_?details)?$/i;
/** Matches Bedrock's list of cache writes (`CacheDetail` of the API reference): `[{ "ttl": "1h", "inputTokens": 1 }]`. */
const writeList = /^cache_?details$/i;

/**
 * Reads each count separately, so that a malformed count doesn't affect the others. If a count has several names, the
 * largest value applies, because proxies fill in zeros for unknown values.
 */
export function readStatedCounts(usage: unknown): StatedCounts {
  const stated: StatedCounts = {};
  const note = (name: StatedCount | undefined, value: unknown) => {
    const count = name && readCount(value);
    if (name && count !== undefined) stated[name] = Math.max(stated[name] ?? 0, count);
  };
  const read = (members: Record<string, unknown>, place: Place) => {
    for (const [name, value] of Object.entries(members)) {
      note(findStatedCount(name, place), value);
      const inner = nested.find(([pattern]) => pattern.test(name))?.[1];
      if (inner && isObject(value)) read(value, inner === "usage" ? place : inner);
      if (place === "outputDetails") continue;
      if (writeDetails.test(name) && isObject(value)) {
        for (const [lifetime, count] of Object.entries(value)) note(findCacheWriteCount(lifetime), count);
      } else if (writeList.test(name) && Array.isArray(value)) {
        for (const [name, count] of Object.entries(sumWrites(value))) note(name as StatedCount, count);
      }
    }
  };
  if (!isObject(usage)) return stated;
  read(usage, "usage");
  note("audioInput", readModality(usage.promptTokensDetails, "AUDIO"));
  note("imageInput", readModality(usage.promptTokensDetails, "IMAGE"));
  note("audioOutput", readModality(usage.candidatesTokensDetails, "AUDIO"));
  return stated;
}

/** Adds up the entries of each lifetime in a list of cache writes. */
function sumWrites(list: readonly unknown[]): StatedCounts {
  const sums: StatedCounts = {};
  for (const entry of list) {
    const name = isObject(entry) ? findCacheWriteCount(entry.ttl) : undefined;
    const count = isObject(entry) ? readCount(entry.inputTokens ?? entry.input_tokens) : undefined;
    if (name && count !== undefined) sums[name] = (sums[name] ?? 0) + count;
  }
  return sums;
}

/** Returns the number of tokens with the given modality in Gemini's list. */
function readModality(kinds: unknown, modality: string): unknown {
  if (!Array.isArray(kinds)) return undefined;
  const kind: unknown = kinds.find((each) => isObject(each) && each.modality === modality);
  return isObject(kind) ? kind.tokenCount : undefined;
}

/** Reads a token count. Also accepts a string, because Protocol Buffers write 64-bit integers as strings in JSON. */
function readCount(value: unknown): number | undefined {
  const count = typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof count === "number" && Number.isSafeInteger(count) && count >= 0 ? count : undefined;
}
