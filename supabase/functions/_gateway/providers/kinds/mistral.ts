import { chatEndpoint, embeddingsEndpoint, modelList, type ProviderKind } from "./kind.ts";

/**
 * Mistral. It answers 422 "Extra inputs are not permitted" to unknown members, including `max_completion_tokens` and
 * `store` (github.com/editor-code-assistant/eca/issues/231, github.com/Gitlawb/openclaude/issues/739).
 * ChatCompletionStreamRequest and AssistantMessage of github.com/mistralai/client-ts list the known members. The last
 * chunk of every stream has usage (https://docs.mistral.ai/api/endpoint/chat). Ids of tool calls have nine letters and
 * digits (github.com/nearai/ironclaw/issues/1241, github.com/langchain-ai/langchain/pull/24668). A message with
 * thinking is sent back with its thinking parts (https://docs.mistral.ai/capabilities/reasoning). The list of models
 * gives their `aliases` (ModelCard of github.com/mistralai/client-ts).
 */
export const mistral: ProviderKind = {
  name: "mistral",
  baseUrl: "https://api.mistral.ai/v1",
  keyRequired: true,
  endpoints: { chat: chatEndpoint, embeddings: embeddingsEndpoint },
  models: { ...modelList, owners: ["mistralai"] },
  outputLimit: "max_tokens",
  streamOptions: [],
  developerIsSystem: true,
  passes: ["safe_prompt"],
  leftOut: ["metadata", "modalities", "prompt_cache_key", "safety_identifier", "service_tier", "store", "user"],
  renamed: { seed: "random_seed" },
  turn: { message: ["prefix"], toolCall: [], parts: ["thinking", "reference"], idLength: 9 },
};
