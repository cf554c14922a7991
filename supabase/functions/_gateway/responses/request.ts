import { GatewayError } from "../http/errors.ts";
import { parseBody } from "../http/parse-body.ts";
import { tenantCacheKey } from "../prompt-cache-key.ts";
import type { ProviderRequest } from "../providers/provider.ts";
import { prepareAnswerCheck } from "../structured/answer-schema.ts";
import type { Asked, ProviderTarget } from "../surface.ts";
import { outputLimits } from "../text-fields.ts";
import { toolDefinition } from "../tools/server-tools.ts";
import { readServerTools, type ServerTools } from "../tools/tool-request.ts";
import { estimateInput } from "../usage/estimate.ts";
import { imageTokens } from "../usage/media.ts";
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
  const input = readInput(request);
  return {
    request: functions ? { ...fields, tools: functions } : fields,
    serverTools,
    model: request.model,
    stream: request.stream === true,
    serviceTier: request.service_tier,
    outputLimit: (limitName && request[limitName]) ?? outputLimits.default,
    outputLimitAssumed: limitName === undefined,
    sizeFields: { input: "input", output: limitName },
    choices: 1,
    images: input.images,
    audio: false,
    inputEstimate: estimateInput({
      ...input,
      texts: [...input.texts, functions ? JSON.stringify(functions) : "", format ? JSON.stringify(format) : ""],
    }),
    inputBytes: bodyBytes - input.imageBytes + (serverTools ? JSON.stringify(functions).length : 0),
    keepsSchema,
  };
}

/** What the input holds, by kind; `imageBytes` of the body are no text. */
function readInput({ input, instructions = "" }: ResponsesRequest) {
  const texts = [instructions];
  if (typeof input === "string")
    return { texts: [...texts, input], messages: 1, images: 0, imageBytes: 0, imageTokens: 0 };
  let [images, imageBytes, imageTokensInAll] = [0, 0, 0];
  for (const item of input) {
    if (item.type === "function_call") texts.push(item.name, item.arguments);
    if (item.type === "reasoning") for (const { text } of item.content ?? item.summary) texts.push(text);
    const parts = item.type === "message" ? item.content : item.type === "function_call_output" ? item.output : [];
    for (const part of typeof parts === "string" ? [{ type: "input_text", text: parts } as const] : parts) {
      if (part.type !== "input_image") texts.push(part.type === "refusal" ? part.refusal : part.text);
      else {
        images += 1;
        imageTokensInAll += imageTokens(part.image_url, part.detail);
        if (part.image_url.startsWith("data:")) imageBytes += part.image_url.length;
      }
    }
  }
  return { texts, messages: input.length, images, imageBytes, imageTokens: imageTokensInAll };
}

/** What a provider is asked: the client's fields, with the limits that the reservation counts on; never to be stored. */
export function responsesProviderRequest(
  { request, outputLimit, stream }: Responses,
  { route, provider: { kind }, workspaceId }: Pick<ProviderTarget, "route" | "provider" | "workspaceId">,
): ProviderRequest {
  const { max_tokens, max_completion_tokens, prompt_cache_key, stream: _, stream_options, ...fields } = request;
  const body = JSON.stringify({
    ...fields,
    model: route.model,
    max_output_tokens: outputLimit,
    store: false,
    service_tier: fields.service_tier ?? kind.defaultServiceTier,
    ...(prompt_cache_key === undefined ? {} : { prompt_cache_key: tenantCacheKey(workspaceId, prompt_cache_key) }),
    ...(stream ? { stream: true, ...(stream_options ? { stream_options } : {}) } : {}),
  });
  return { endpoint: "responses", body };
}
