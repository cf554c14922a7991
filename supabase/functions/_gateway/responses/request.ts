import { GatewayError } from "../http/errors.ts";
import { parseBody } from "../http/parse-body.ts";
import { tenantCacheKey } from "../prompt-cache-key.ts";
import type { ProviderRequest } from "../providers/provider.ts";
import { prepareAnswerCheck } from "../structured/answer-schema.ts";
import type { Asked, ProviderTarget } from "../surface.ts";
import { outputLimits } from "../text-fields.ts";
import { toolDefinition } from "../tools/server-tools.ts";
import { readServerTools, type ServerTools } from "../tools/tool-request.ts";
import { type ResponsesRequest, responsesSchema, unsupportedFields } from "./schema.ts";

/** What a response is asked for, and what it may cost at most. */
export type Responses = Asked & { request: ProviderFields; serverTools?: ServerTools };

/** The fields that a provider gets; what is ours alone is read before. */
type ProviderFields = Omit<ResponsesRequest, "input" | "tools" | "platform" | "max_steps"> & {
  input: string | readonly object[];
  tools?: readonly object[];
};

const limitNames = ["max_output_tokens", "max_completion_tokens", "max_tokens"] as const;

/**
 * Checks a parsed body against the allow-list.
 * @throws GatewayError `invalid_request` or `unsupported_parameter`, with the field
 */
export function readResponses(value: unknown, bodyBytes: number): Responses {
  const request = parseBody(responsesSchema, value, unsupportedFields);
  const [limitName, other] = limitNames.filter((name) => request[name] !== undefined);
  if (other !== undefined) {
    throw new GatewayError("invalid_request", {
      param: other,
      message: `${limitName} and ${other} mean the same: send one.`,
    });
  }
  const format = request.text?.format;
  const keepsSchema = format?.type === "json_schema" ? prepareAnswerCheck(format, "text.format.schema") : undefined;
  const serverTools = readServerTools(request);
  const { platform, max_steps, tools, ...fields } = request;
  const functions = serverTools
    ? // Their own arguments may be left out, which strict ones may not.
      serverTools.tools.map((name) => ({ type: "function", ...toolDefinition(name), strict: false }))
    : tools?.filter((tool) => typeof tool === "object");
  const images = imagesOf(request);
  const imageBytes = images.reduce((sum, url) => sum + (url.startsWith("data:") ? url.length : 0), 0);
  return {
    request: functions ? { ...fields, tools: functions } : fields,
    serverTools,
    model: request.model,
    stream: request.stream === true,
    outputLimit: (limitName && request[limitName]) ?? outputLimits.default,
    choices: 1,
    images: images.length,
    audio: false,
    inputBytes: bodyBytes - imageBytes + (serverTools ? JSON.stringify(functions).length : 0),
    keepsSchema,
  };
}

function imagesOf({ input }: ResponsesRequest): string[] {
  if (typeof input === "string") return [];
  return input.flatMap((item) => {
    const parts = item.type === "message" ? item.content : item.type === "function_call_output" ? item.output : [];
    if (typeof parts === "string") return [];
    return parts.flatMap((part) => (part.type === "input_image" ? [part.image_url] : []));
  });
}

/** What a provider is asked: the client's fields, with the limits that the reservation counts on; never to be stored. */
export function responsesProviderRequest(
  { request, outputLimit, stream }: Responses,
  { route, workspaceId }: Pick<ProviderTarget, "route" | "workspaceId">,
): ProviderRequest {
  const { max_tokens, max_completion_tokens, prompt_cache_key, stream: _, stream_options, ...fields } = request;
  const body = JSON.stringify({
    ...fields,
    model: route.model,
    max_output_tokens: outputLimit,
    store: false,
    ...(prompt_cache_key === undefined ? {} : { prompt_cache_key: tenantCacheKey(workspaceId, prompt_cache_key) }),
    ...(stream ? { stream: true, ...(stream_options ? { stream_options } : {}) } : {}),
  });
  return { path: "/responses", body };
}
