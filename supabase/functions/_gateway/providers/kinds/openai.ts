import { chatEndpoint, embeddingsEndpoint, modelList, type ProviderKind, responsesEndpoint } from "./kind.ts";

/**
 * OpenAI's own API. Its reasoning models refuse `max_tokens`
 * (https://platform.openai.com/docs/api-reference/chat/create). ChatCompletionAssistantMessageParam of openai-python
 * lists the members of an assistant message. A chat may have `metadata` only if it is stored
 * (github.com/QwenLM/qwen-code/issues/243).
 */
export const openai: ProviderKind = {
  name: "openai",
  baseUrl: "https://api.openai.com/v1",
  keyRequired: true,
  endpoints: { chat: chatEndpoint, responses: responsesEndpoint, embeddings: embeddingsEndpoint },
  models: { ...modelList, owners: ["openai", "openai-internal", "system"] },
  outputLimit: "max_completion_tokens",
  streamOptions: ["include_usage", "include_obfuscation"],
  leftOut: ["metadata"],
  passes: ["prompt_cache_retention"],
  defaultServiceTier: "default",
  turn: { message: ["name", "refusal"], toolCall: [] },
};
