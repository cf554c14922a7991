import { chat, type ProviderKind } from "./kind.ts";

/**
 * Perplexity's Sonar models (https://docs.perplexity.ai/docs/sonar/openai-compatibility). Every chunk of a stream has
 * usage. The path has no version. The models have no list, and an unknown model gets 400 `invalid_model`
 * (github.com/bhdicaire/visioStencils/issues/3).
 */
export const perplexity: ProviderKind = {
  name: "perplexity",
  baseUrl: "https://api.perplexity.ai",
  keyRequired: true,
  endpoints: { chat },
  models: { paths: [] },
  outputLimit: "max_tokens",
  streamOptions: [],
  developerIsSystem: true,
  leftOut: ["metadata", "modalities", "prompt_cache_key", "safety_identifier", "service_tier", "store", "user"],
};
