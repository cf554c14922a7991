import { chat, embeddings, type ProviderKind, responses } from "./kind.ts";

/**
 * OpenRouter. Tool turns return `reasoning_details` unchanged
 * (https://openrouter.ai/docs/use-cases/reasoning-tokens), so an assistant's message goes back as it came.
 */
export const openrouter: ProviderKind = {
  name: "openrouter",
  baseUrl: "https://openrouter.ai/api/v1",
  keyRequired: true,
  endpoints: { chat, responses, embeddings },
  outputLimit: "max_tokens",
  streamOptions: ["include_usage"],
  leftOut: [],
};
