import { chatEndpoint, modelList, type ProviderKind, responsesEndpoint } from "./kind.ts";

/**
 * DeepSeek. In thinking mode, it answers 400 unless every assistant message with tool calls has its
 * `reasoning_content`, even if empty (https://api-docs.deepseek.com/guides/thinking_mode;
 * github.com/deepseek-ai/deepseek-harness/discussions/739). Responses:
 * https://api-docs.deepseek.com/guides/responses_api. Models: https://api-docs.deepseek.com/api/list-models.
 */
export const deepseek: ProviderKind = {
  name: "deepseek",
  baseUrl: "https://api.deepseek.com",
  keyRequired: true,
  endpoints: { chat: chatEndpoint, responses: responsesEndpoint },
  models: { ...modelList, owners: ["deepseek"] },
  outputLimit: "max_tokens",
  streamOptions: ["include_usage"],
  developerIsSystem: true,
  leftOut: [],
  passes: ["thinking"],
  turn: { message: ["name", "prefix", "reasoning_content"], toolCall: [], required: "reasoning_content" },
};
