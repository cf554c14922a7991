import { chatEndpoint, type ProviderKind } from "./kind.ts";

/**
 * Perplexity's Sonar models (https://docs.perplexity.ai/docs/sonar/openai-compatibility). Every stream chunk states
 * usage. The URL has no API version. No endpoint lists the models, and an unknown model gets 400 `invalid_model`
 * (github.com/bhdicaire/visioStencils/issues/3).
 */
export const perplexity: ProviderKind = {
  name: "perplexity",
  baseUrl: "https://api.perplexity.ai",
  keyRequired: true,
  endpoints: { chat: chatEndpoint },
  models: { paths: [] },
  outputLimit: "max_tokens",
  streamOptions: [],
  developerIsSystem: true,
  leftOut: ["metadata", "modalities", "prompt_cache_key", "safety_identifier", "service_tier", "store", "user"],
};
