import { chat, embeddings, type ProviderKind } from "./kind.ts";

/**
 * The Gemini API: text through its OpenAI endpoints below `/openai`, speech through its own `generateContent`
 * (https://ai.google.dev/gemini-api/docs/openai, /speech-generation). It answers 400 "Unknown name" to unknown members
 * (github.com/Routstr/routstr-core/issues/505, github.com/ed-donner/agents/issues/45). Tool turns return thought
 * signatures in `extra_content` (https://ai.google.dev/gemini-api/docs/thought-signatures).
 *
 * Its OpenAI list also has speech and embedding models, as `models/gemini-…`; calls accept both spellings
 * (https://ai.google.dev/api/compatibility). A wrong key is 400 `API_KEY_INVALID`
 * (github.com/google/timesketch/pull/3703).
 */
export const gemini: ProviderKind = {
  name: "gemini",
  baseUrl: "https://generativelanguage.googleapis.com/v1beta",
  keyRequired: true,
  endpoints: {
    chat: { ...chat, path: "/openai/chat/completions" },
    embeddings: { ...embeddings, path: "/openai/embeddings" },
    speech: { path: "/models/{model}:generateContent", keyHeader: "x-goog-api-key" },
  },
  models: { paths: ["/openai/models"], owners: ["google"], spell: (model) => model.replace(/^models\//, "") },
  outputLimit: "max_completion_tokens",
  streamOptions: ["include_usage"],
  leftOut: ["metadata", "modalities", "prompt_cache_key", "safety_identifier", "service_tier", "store", "user"],
  turn: { message: ["extra_content"], toolCall: ["extra_content"] },
};
