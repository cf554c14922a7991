import { chatEndpoint, embeddingsEndpoint, modelList, type ProviderKind } from "./kind.ts";

/**
 * Together AI. Its schema has `max_tokens` but no `stream_options`, and its list of models is an array
 * (github.com/togethercomputer/openapi, ModelInfoList).
 */
export const together: ProviderKind = {
  name: "together",
  baseUrl: "https://api.together.xyz/v1",
  keyRequired: true,
  endpoints: { chat: chatEndpoint, embeddings: embeddingsEndpoint },
  models: { ...modelList, array: true },
  outputLimit: "max_tokens",
  streamOptions: [],
  developerIsSystem: true,
  passes: ["min_p", "repetition_penalty", "top_k"],
  leftOut: ["metadata", "modalities", "prompt_cache_key", "safety_identifier", "service_tier", "store", "user"],
};
