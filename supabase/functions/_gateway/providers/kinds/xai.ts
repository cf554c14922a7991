import { chatEndpoint, embeddingsEndpoint, type ProviderKind, responsesEndpoint } from "./kind.ts";

/**
 * xAI. Its reference marks `max_tokens` as deprecated and documents `aliases` in `/language-models`
 * (https://docs.x.ai/developers/rest-api-reference/inference). An invalid key gets 400
 * (github.com/continuedev/continue/issues/10778).
 */
export const xai: ProviderKind = {
  name: "xai",
  baseUrl: "https://api.x.ai/v1",
  keyRequired: true,
  endpoints: { chat: chatEndpoint, responses: responsesEndpoint, embeddings: embeddingsEndpoint },
  models: { paths: ["/models", "/language-models"], owners: ["xai"] },
  outputLimit: "max_completion_tokens",
  streamOptions: ["include_usage"],
  leftOut: [],
  turn: { message: ["name", "reasoning_content"], toolCall: [] },
};
