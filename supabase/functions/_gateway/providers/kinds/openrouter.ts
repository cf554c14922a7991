import { chatEndpoint, embeddingsEndpoint, type ProviderKind, responsesEndpoint } from "./kind.ts";

/**
 * OpenRouter. Clients must return `reasoning_details` with a message that calls tools
 * (https://openrouter.ai/docs/use-cases/reasoning-tokens), so assistant messages are sent back unchanged.
 *
 * https://openrouter.ai/docs/api-reference/parameters lists the sampling members. The gateway does not forward
 * `plugins`, `models` and `provider`, because they change the price.
 *
 * The list of models is public and names no owners. Embedding models have a separate list. `GET /key` checks the key
 * (https://openrouter.ai/docs/api/api-reference/api-keys/get-current-api-key). A routing variant may follow any model's
 * name, but is not listed (https://openrouter.ai/docs/guides/routing/model-variants/overview).
 *
 * Answers without output that end in an error or without a reason are free
 * (https://openrouter.ai/docs/guides/features/zero-completion-insurance).
 */
export const openrouter: ProviderKind = {
  name: "openrouter",
  baseUrl: "https://openrouter.ai/api/v1",
  keyRequired: true,
  endpoints: { chat: chatEndpoint, responses: responsesEndpoint, embeddings: embeddingsEndpoint },
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
  unbilled: ["error", "nothing"],
  passes: ["min_p", "reasoning", "repetition_penalty", "top_a", "top_k"],
};
