import { Buffer } from "node:buffer";
import type { ProviderTarget } from "../calls/surface.ts";
import { GatewayError } from "../http/errors.ts";
import { parseOpenBody } from "../http/parse-body.ts";
import { stringifyWithSource } from "../http/source-json.ts";
import type { ProviderRequest } from "../providers/provider.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";
import { readHourWrites } from "../usage/cache-lifetimes.ts";
import { bytesPerReservedToken, estimateDocumentTokens } from "../usage/documents.ts";
import { estimateTokens } from "../usage/estimate.ts";
import { estimateImageTokens } from "../usage/media.ts";
import { listMedia } from "./content.ts";
import {
  type CountTokensRequest,
  countTokensSchema,
  type MessagesRequest,
  messagesSchema,
  refusedMembers,
} from "./schema.ts";
import { computeMaxServerToolUse, limitServerTools, refuseTools } from "./tools.ts";

/** A parsed Messages API request, with the values that determine its maximum cost. */
export type Messages = ParsedRequest & { body: MessagesRequest; headers: Record<string, string> };
/** A parsed request to count the tokens of a prompt. */
export type CountTokens = ParsedRequest & { body: CountTokensRequest; headers: Record<string, string> };

/**
 * How many images admission counts for one image in a request. Admission reserves 1,500 tokens per counted image, but
 * Anthropic uses up to 4,784 per image (https://platform.claude.com/docs/en/build-with-claude/vision).
 */
const countedImagesPerImage = 4;

/**
 * Validates a parsed body against the supported fields.
 * @throws GatewayError `invalid_request` or `unsupported_parameter`, with the field
 */
export function readMessages(value: unknown, bodyBytes: number, headers: Headers): Messages {
  const { body: parsedBody, others } = parseOpenBody(messagesSchema, value, refusedMembers);
  const { tools } = parsedBody;
  const body = tools ? { ...parsedBody, tools: limitServerTools(tools) } : parsedBody;
  return {
    body,
    headers: readHeaders(headers),
    ignored: Object.keys(others),
    model: body.model,
    stream: body.stream === true,
    outputLimit: body.max_tokens,
    // Anthropic refuses a limit that the thinking alone may use up.
    sizeFields: { input: "messages", output: "max_tokens", minOutput: (body.thinking?.budget_tokens ?? 0) + 1 },
    choices: 1,
    audio: false,
    ...measureMessages(body, bodyBytes),
  };
}

/**
 * Validates a request to count tokens. Counting is free, so the request reserves nothing.
 * @throws GatewayError as `readMessages` does
 */
export function readCountTokens(value: unknown, _: number, headers: Headers): CountTokens {
  const { body, others } = parseOpenBody(countTokensSchema, value, refusedMembers);
  refuseTools(body.tools ?? []);
  return {
    body,
    headers: readHeaders(headers),
    ignored: Object.keys(others),
    model: body.model,
    stream: false,
    outputLimit: 0,
    sizeFields: { input: "messages" },
    choices: 1,
    audio: false,
    images: 0,
    inputBytes: 0,
    inputEstimate: { input_tokens: 0, output_tokens: 0 },
    isFree: true,
  };
}

/**
 * Measures the maximum input. After each use of a server tool, the model reads the whole conversation again, including
 * the results of the tools so far.
 */
function measureMessages(
  { messages, system, cache_control, tools = [] }: MessagesRequest,
  bodyBytes: number,
): Pick<
  ParsedRequest,
  "images" | "inputBytes" | "inputEstimate" | "hasUnmeasuredInput" | "feeRequests" | "inputReads" | "hourWrites"
> {
  refuseTools(tools);
  const { images, documents } = listMedia(messages);
  const data = images.flatMap((source) => (source.type === "base64" ? [source.data] : []));
  const textBytes = bodyBytes - [...data, ...documents].reduce((sum, each) => sum + Buffer.byteLength(each), 0);
  const inDocuments = estimateDocumentTokens(documents);
  const image_input_tokens = images.reduce((sum, source) => {
    const url = source.type === "base64" ? `data:${source.media_type};base64,${source.data}` : "";
    return sum + estimateImageTokens(url);
  }, 0);
  const { searches, uses, resultTokens } = computeMaxServerToolUse(tools);
  const inputReads = uses + 1;
  return {
    images: images.length * countedImagesPerImage * inputReads,
    inputBytes: textBytes * inputReads + (inDocuments.maximum * inputReads + resultTokens) * bytesPerReservedToken,
    inputReads,
    hourWrites: readHourWrites([{ cache_control }, system, tools, messages]),
    hasUnmeasuredInput: !inDocuments.isMeasured,
    inputEstimate: {
      input_tokens: estimateTokens(textBytes) + image_input_tokens + inDocuments.estimate,
      ...(image_input_tokens > 0 ? { image_input_tokens } : {}),
      output_tokens: 0,
    },
    ...(searches > 0 ? { feeRequests: searches } : {}),
  };
}

const versionPattern = /^[A-Za-z0-9.-]{1,32}$/;
const betaPattern = /^[A-Za-z0-9._,: -]{1,2048}$/;

/**
 * Returns the headers that are passed to the provider.
 * @throws GatewayError `invalid_request` that names a malformed header
 */
function readHeaders(headers: Headers): Record<string, string> {
  const forwarded: Record<string, string> = {};
  for (const [name, pattern] of [
    ["anthropic-version", versionPattern],
    ["anthropic-beta", betaPattern],
  ] as const) {
    const value = headers.get(name);
    if (value === null) continue;
    if (!pattern.test(value)) {
      throw new GatewayError("invalid_request", { param: name, message: `The header ${name} is malformed.` });
    }
    forwarded[name] = value;
  }
  return forwarded;
}

type Target = Pick<ProviderTarget, "route" | "contextWindow">;

/** Builds the provider's request from the client's fields and the route's model. */
export function messagesProviderRequest(call: Messages, target: Target): ProviderRequest {
  return { endpoint: "messages", ...createForwardedRequest(call, target) };
}

export function countTokensProviderRequest(call: CountTokens, target: Target): ProviderRequest {
  return { endpoint: "count_tokens", ...createForwardedRequest(call, target) };
}

function createForwardedRequest(
  { body: { platform, ...fields }, headers }: Messages | CountTokens,
  { route: { model }, contextWindow }: Target,
): Omit<ProviderRequest, "endpoint"> {
  return { body: stringifyWithSource({ ...fields, model }), headers: dropLongContextBetas(headers, contextWindow) };
}

/**
 * Anthropic's context window in tokens, unless a beta widens it
 * (https://platform.claude.com/docs/en/build-with-claude/context-windows).
 */
const plainWindow = 200_000;
const longContext = /^context-\d+m\b/i;

/**
 * Removes betas that widen the context window, because input beyond the catalogue's window is not charged. Keeps these
 * betas if the catalogue lists more than 200,000 tokens for the model.
 */
function dropLongContextBetas(headers: Record<string, string>, contextWindow = plainWindow): Record<string, string> {
  const { "anthropic-beta": betas, ...others } = headers;
  if (betas === undefined || contextWindow > plainWindow) return headers;
  const allowed = betas.split(",").filter((beta) => !longContext.test(beta.trim()));
  return allowed.length > 0 ? { ...others, "anthropic-beta": allowed.join(",") } : others;
}
