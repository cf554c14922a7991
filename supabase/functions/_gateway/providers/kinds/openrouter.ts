import { chat, embeddings, type ProviderKind, responses } from "./kind.ts";

/**
 * OpenRouter. Tool turns return `reasoning_details` unchanged (https://openrouter.ai/docs/use-cases/reasoning-tokens),
 * so assistant messages are sent back unchanged.
 *
 * Sampling members: https://openrouter.ai/docs/api-reference/parameters. `plugins`, `models` and `provider` change the
 * price.
 *
 * The list of models is public and names no owners, embedding models have their own list, and `GET /key` checks the key
 * (https://openrouter.ai/docs/api/api-reference/api-keys/get-current-api-key). Routing variants are accepted after any
 * model's name but not listed (https://openrouter.ai/docs/guides/routing/model-variants/overview).
 */
export const openrouter: ProviderKind = {
  name: "openrouter",
  baseUrl: "https://openrouter.ai/api/v1",
  keyRequired: true,
  endpoints: { chat, responses, embeddings },
  models: {
    paths: ["/models", "/embeddings/models"],
    public: true,
    keyPath: "/key",
    owners: [],
    spell: (model) => model.replace(/:(nitro|floor|exacto|online)$/, ""),
  },
  outputLimit: "max_tokens",
  streamOptions: ["include_usage"],
  leftOut: [],
  passes: ["min_p", "reasoning", "repetition_penalty", "top_a", "top_k"],
};
