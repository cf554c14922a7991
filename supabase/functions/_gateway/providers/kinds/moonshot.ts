import { chatEndpoint, modelList, type ProviderKind } from "./kind.ts";

/**
 * Moonshot (Kimi). The supported fields are those that Moonshot's own client sends (github.com/MoonshotAI/kimi-cli,
 * packages/kosong/src/kosong/chat_provider/kimi.py). In thinking mode, Moonshot refuses messages that have tool calls
 * but no `reasoning_content` (https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model). Models:
 * https://platform.moonshot.ai/docs/api/list-models.
 */
export const moonshot: ProviderKind = {
  name: "moonshot",
  baseUrl: "https://api.moonshot.ai/v1",
  keyRequired: true,
  endpoints: { chat: chatEndpoint },
  models: { ...modelList, owners: ["moonshot"] },
  outputLimit: "max_tokens",
  streamOptions: ["include_usage"],
  developerIsSystem: true,
  passes: ["thinking"],
  leftOut: ["metadata", "modalities", "service_tier", "store", "user"],
  turn: { message: ["name", "partial", "reasoning_content"], toolCall: [], required: "reasoning_content" },
};
