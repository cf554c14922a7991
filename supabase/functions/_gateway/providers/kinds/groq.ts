import { chatEndpoint, modelList, type ProviderKind, responsesEndpoint } from "./kind.ts";

/**
 * Groq. It answers 400 "property … is unsupported" to unknown members (github.com/tashfeenahmed/freellmapi/issues/1070,
 * github.com/fanenr/chatbot/issues/21). CompletionCreateParams and ChatCompletionAssistantMessageParam of
 * github.com/groq/groq-python list the known members. Groq has no service tier called `default`. Responses:
 * https://console.groq.com/docs/responses-api. Models: https://console.groq.com/docs/api-reference#models-list.
 */
export const groq: ProviderKind = {
  name: "groq",
  baseUrl: "https://api.groq.com/openai/v1",
  keyRequired: true,
  endpoints: { chat: chatEndpoint, responses: responsesEndpoint },
  models: { ...modelList, owners: ["Groq", "Meta", "OpenAI"] },
  outputLimit: "max_completion_tokens",
  streamOptions: ["include_usage"],
  passes: ["include_reasoning", "reasoning_format"],
  leftOut: ["metadata", "modalities", "prompt_cache_key", "safety_identifier", "service_tier", "store"],
  turn: { message: ["name", "reasoning"], toolCall: [] },
};
