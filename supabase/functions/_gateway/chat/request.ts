import { GatewayError } from "../http/errors.ts";
import { parseBody } from "../http/parse-body.ts";
import { tenantCacheKey } from "../prompt-cache-key.ts";
import type { ProviderRequest } from "../providers/provider.ts";
import { prepareAnswerCheck } from "../structured/answer-schema.ts";
import type { Asked, ProviderTarget } from "../surface.ts";
import { outputLimits } from "../text-fields.ts";
import { toolDefinition } from "../tools/server-tools.ts";
import { readServerTools, type ServerTools } from "../tools/tool-request.ts";
import { type ChatRequest, chatSchema, unsupportedFields } from "./schema.ts";

/** What a chat asks for, and what it may cost at most. */
export type Chat = Asked & { request: ProviderFields; serverTools?: ServerTools };

/** The fields that a provider gets; what is ours alone is read before. */
type ProviderFields = Omit<ChatRequest, "messages" | "tools" | "platform" | "max_steps"> & {
  messages: readonly object[];
  tools?: readonly object[];
};

/**
 * Checks a parsed body against the allow-list.
 * @throws GatewayError `invalid_request` or `unsupported_parameter`, with the field
 */
export function readChat(value: unknown, bodyBytes: number): Chat {
  const request = parseBody(chatSchema, value, unsupportedFields);
  if (request.max_tokens !== undefined && request.max_completion_tokens !== undefined) {
    throw new GatewayError("invalid_request", {
      param: "max_tokens",
      message: "max_tokens and max_completion_tokens mean the same: send one.",
    });
  }
  const serverTools = readServerTools(request);
  const format = request.response_format;
  const keepsSchema =
    format?.type === "json_schema"
      ? prepareAnswerCheck(format.json_schema, "response_format.json_schema.schema")
      : undefined;
  let images = 0;
  let imageBytes = 0;
  let audio = false;
  for (const { content } of request.messages) {
    if (!Array.isArray(content)) continue;
    for (const part of content) {
      if (part.type === "image_url") {
        images += 1;
        if (part.image_url.url.startsWith("data:")) imageBytes += part.image_url.url.length;
      } else if (part.type === "input_audio") audio = true;
    }
  }
  const { platform, max_steps, tools, ...fields } = request;
  const functions = serverTools
    ? serverTools.tools.map((name) => ({ type: "function", function: toolDefinition(name) }))
    : tools?.filter((tool) => typeof tool === "object");
  return {
    request: functions ? { ...fields, tools: functions } : fields,
    serverTools,
    model: request.model,
    stream: request.stream === true,
    outputLimit: request.max_completion_tokens ?? request.max_tokens ?? outputLimits.default,
    choices: request.n ?? 1,
    images,
    audio,
    keepsSchema,
    inputBytes: bodyBytes - imageBytes + (serverTools ? JSON.stringify(functions).length : 0),
  };
}

/** What a provider is asked: the client's fields, with the limits that the reservation counts on. */
export function chatProviderRequest(
  chat: Chat,
  { route, workspaceId }: Pick<ProviderTarget, "route" | "workspaceId">,
): ProviderRequest {
  const { stream, stream_options, prompt_cache_key, ...fields } = chat.request;
  const body = JSON.stringify({
    ...fields,
    model: route.model,
    ...(chat.request.max_tokens === undefined ? { max_completion_tokens: chat.outputLimit } : {}),
    ...(prompt_cache_key === undefined ? {} : { prompt_cache_key: tenantCacheKey(workspaceId, prompt_cache_key) }),
    ...(stream ? { stream: true, stream_options: { ...stream_options, include_usage: true } } : {}),
  });
  return { path: "/chat/completions", body };
}
