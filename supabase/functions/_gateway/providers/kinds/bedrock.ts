import { chatEndpoint, modelList, type ProviderKind, responsesEndpoint } from "./kind.ts";

/**
 * Amazon Bedrock's OpenAI-compatible endpoint with a Bedrock API key. The host name contains the region
 * (https://docs.aws.amazon.com/bedrock/latest/userguide/inference-chat-completions.html, inference-responses-api.html).
 *
 * Only the `bedrock-mantle` hosts have a list of models in OpenAI's format
 * (https://docs.aws.amazon.com/bedrock/latest/userguide/models-get-info.html).
 */
export const bedrock: ProviderKind = {
  name: "bedrock",
  keyRequired: true,
  endpoints: { chat: chatEndpoint, responses: responsesEndpoint },
  models: { ...modelList, optional: true },
  basePath: "/openai/v1",
  outputLimit: "max_completion_tokens",
  streamOptions: ["include_usage"],
  leftOut: [],
  turn: { message: ["name", "refusal"], toolCall: [] },
};
