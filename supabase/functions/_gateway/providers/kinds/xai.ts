import { chat, embeddings, type ProviderKind, responses } from "./kind.ts";

/** xAI. Its reference calls `max_tokens` deprecated (https://docs.x.ai/developers/rest-api-reference/inference). */
export const xai: ProviderKind = {
  name: "xai",
  baseUrl: "https://api.x.ai/v1",
  keyRequired: true,
  endpoints: { chat, responses, embeddings },
  outputLimit: "max_completion_tokens",
  streamOptions: ["include_usage"],
  leftOut: [],
  turn: { message: ["name", "reasoning_content"], toolCall: [] },
};
