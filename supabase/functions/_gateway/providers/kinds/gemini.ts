import { chatEndpoint, embeddingsEndpoint, type ProviderKind } from "./kind.ts";

/**
 * The Gemini API. Chat and embeddings use its OpenAI-compatible endpoints below `/openai`. Speech uses
 * `generateContent` (https://ai.google.dev/gemini-api/docs/openai, /speech-generation). The API refuses unknown fields
 * with 400 "Unknown name" (github.com/Routstr/routstr-core/issues/505, github.com/ed-donner/agents/issues/45). Messages
 * with tool calls return thought signatures in `extra_content`
 * (https://ai.google.dev/gemini-api/docs/thought-signatures).
 *
 * The list of models in OpenAI's format includes speech and embedding models. All names start with `models/`, and calls
 * accept names with and without that prefix (https://ai.google.dev/api/compatibility). An invalid key is refused with
 * 400 `API_KEY_INVALID` (github.com/google/timesketch/pull/3703).
 */
export const gemini: ProviderKind = {
  name: "gemini",
  baseUrl: "https://generativelanguage.googleapis.com/v1beta",
  keyRequired: true,
  endpoints: {
    chat: { ...chatEndpoint, path: "/openai/chat/completions" },
    embeddings: { ...embeddingsEndpoint, path: "/openai/embeddings" },
    speech: { path: "/models/{model}:generateContent", keyHeader: "x-goog-api-key" },
  },
  models: { paths: ["/openai/models"], owners: ["google"], spell: (model) => model.replace(/^models\//, "") },
  outputLimit: "max_completion_tokens",
  streamOptions: ["include_usage"],
  leftOut: ["metadata", "modalities", "prompt_cache_key", "safety_identifier", "service_tier", "store", "user"],
  turn: { message: ["extra_content"], toolCall: ["extra_content"] },
};
