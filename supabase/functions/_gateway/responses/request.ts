import { Buffer } from "node:buffer";
import { GatewayError } from "../http/errors.ts";
import { createUnsupportedError, parseOpenBody } from "../http/parse-body.ts";
import { stringifyWithSource } from "../http/source-json.ts";
import { measureInput } from "../requests/measure-input.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";
import { leaveOutTemplates, outputLimits } from "../requests/text-fields.ts";
import { prepareAnswerCheck } from "../structured/answer-schema.ts";
import { isHostedItem, leaveOutHostedTools, removeHostedTools } from "../tools/hosted-tools.ts";
import { toolDefinition } from "../tools/run-tool.ts";
import { readServerTools, type ServerTools } from "../tools/tool-request.ts";
import { readHourWrites } from "../usage/cache-lifetimes.ts";
import { estimateDocumentTokens } from "../usage/documents.ts";
import { countReservedImages, estimateImageTokens } from "../usage/media.ts";
import { createProgress, type ResponseProgress } from "./progress.ts";
import { includable, type ResponsesRequest, refusedMembers, responsesSchema, storedStateAdvice } from "./schema.ts";

/** A parsed request for a response, with the values that its maximum cost depends on. */
export type Responses = ParsedRequest & {
  body: ProviderFields;
  serverTools?: ServerTools;
  progress: ResponseProgress;
};

/** The request fields that can be sent to a provider, without the gateway's own fields. */
type ProviderFields = Omit<ResponsesRequest, "input" | "tools" | "platform" | "max_steps"> & {
  input: string | readonly object[];
  tools?: readonly object[];
};

type Item = Exclude<ResponsesRequest["input"], string>[number];

const limitNames = ["max_output_tokens", "max_completion_tokens", "max_tokens"] as const;

/**
 * Validates a parsed body against the supported fields.
 * @throws GatewayError `invalid_request` or `unsupported_parameter`, with the field
 */
export function readResponses(value: unknown, bodyBytes: number): Responses {
  const { body: parsedBody, others: allOthers } = parseOpenBody(responsesSchema, value, refusedMembers);
  const { others, ignored: ignoredTemplates } = leaveOutTemplates(allOthers);
  const { input: items, hasTools, ignored: ignoredInItems } = removeHostedItems(leaveOutReferences(parsedBody.input));
  const { body, ignored } = leaveOutHostedTools({ ...parsedBody, input: items }, allowedTools(parsedBody), {
    hasOthers: hasTools,
  });
  const [limitName, other] = limitNames.filter((name) => body[name] !== undefined);
  if (other !== undefined) {
    throw new GatewayError("invalid_request", {
      param: other,
      message: `${limitName} and ${other} mean the same: send one.`,
    });
  }
  const format = body.text?.format;
  const checkAnswer = format?.type === "json_schema" ? prepareAnswerCheck(format, "text.format.schema") : undefined;
  const serverTools = readServerTools(body);
  const { platform, max_steps, tools, include, ...fields } = body;
  const functions = serverTools
    ? // The gateway's tools have optional arguments, which strict mode does not allow.
      serverTools.tools.map((name) => ({ type: "function", ...toolDefinition(name), strict: false }))
    : tools?.filter((tool) => typeof tool === "object");
  const input = readInput(body);
  return {
    progress: createProgress(),
    body: {
      ...fields,
      ...(functions ? { tools: functions } : {}),
      ...(include ? { include: include.filter(isIncluded) } : {}),
    },
    others,
    ignored: [
      ...ignored,
      ...ignoredInItems,
      ...ignoredTemplates,
      ...(include ?? []).filter((each) => !isIncluded(each)),
    ],
    serverTools,
    model: body.model,
    stream: body.stream === true,
    serviceTier: body.service_tier,
    outputLimit: (limitName && body[limitName]) ?? getDefaultOutputLimit({ stream: body.stream, serverTools }),
    outputLimitAssumed: limitName === undefined,
    sizeFields: { input: "input", output: limitName ?? limitNames[0] },
    choices: 1,
    audio: false,
    hourWrites: readHourWrites([functions, body.input]),
    ...measureInput(input, {
      bodyBytes,
      definitions: [functions, format],
      addedBytes: serverTools ? JSON.stringify(functions).length : 0,
    }),
    checkAnswer,
  };
}

/**
 * Returns the output limit of a response whose request states none. Agents state no limit and fail if an answer reaches
 * a limit, so a streamed response gets the maximum, which admission lowers to the model's limit. With server tools the
 * limit is smaller, because each step reserves credits for the full limit.
 */
function getDefaultOutputLimit({ stream, serverTools }: { stream?: boolean; serverTools?: ServerTools }): number {
  if (serverTools) return outputLimits.default;
  return stream ? outputLimits.max : outputLimits.whole;
}

const isIncluded = (each: string) => includable.has(each);

function allowedTools({ tool_choice: choice }: ResponsesRequest) {
  return typeof choice === "object" && choice.type === "allowed_tools" ? choice.tools : undefined;
}

/**
 * Removes references to items that are in the same input.
 * @throws GatewayError `unsupported_parameter` for references to other items, which would have to be stored
 */
function leaveOutReferences(input: ResponsesRequest["input"]): ResponsesRequest["input"] {
  if (typeof input === "string" || input.every(({ type }) => type !== "item_reference")) return input;
  const ids = new Set(input.flatMap((item) => (item.type === "item_reference" ? [] : item.id)));
  const unknown = input.findIndex((item) => item.type === "item_reference" && !ids.has(item.id));
  if (unknown >= 0) {
    throw createUnsupportedError(`input.${unknown}.id`, storedStateAdvice);
  }
  return input.filter(({ type }) => type !== "item_reference");
}

/** Leaves out hosted tools that an item defines, and the calls and outputs of hosted tools. */
function removeHostedItems(input: ResponsesRequest["input"]) {
  if (typeof input === "string") return { input, hasTools: false, ignored: [] };
  const ignoredInAll: string[] = [];
  let hasTools = false;
  const items = input.flatMap((item): Item[] => {
    if (isHostedItem(item)) {
      ignoredInAll.push(item.type);
      return [];
    }
    if (item.type !== "additional_tools" && item.type !== "tool_search_output") return [item];
    const { tools, ignored } = removeHostedTools(item.tools);
    ignoredInAll.push(...ignored);
    hasTools ||= tools.length > 0;
    // A tool search that the client ran must have an output, so its output is kept even if no tools are left in it.
    return tools.length > 0 || item.type === "tool_search_output" ? [{ ...item, tools }] : [];
  });
  return { input: items, hasTools, ignored: ignoredInAll };
}

/**
 * Returns the texts of the input and counts its messages, images and documents. `mediaBytes` is the part of the body
 * that is not text.
 */
function readInput({ input, instructions = "" }: ResponsesRequest) {
  const texts = [instructions];
  const files: string[] = [];
  if (typeof input === "string") texts.push(input);
  const items = typeof input === "string" ? [] : input;
  let [images, mediaBytes, imageTokensInAll] = [0, 0, 0];
  for (const item of items) {
    if (item.type === "function_call") texts.push(item.name, item.arguments);
    if (item.type === "additional_tools" || item.type === "tool_search_output") {
      texts.push(stringifyWithSource(item.tools));
    }
    if (item.type === "tool_search_call") texts.push(stringifyWithSource(item.arguments));
    if (item.type === "custom_tool_call") texts.push(item.name, item.input);
    if (item.type === "reasoning") for (const { text } of item.content ?? item.summary) texts.push(text);
    for (const part of partsOf(item)) {
      if (part.type === "input_file") files.push(part.file_data);
      else if (part.type === "encrypted_content") texts.push(part.encrypted_content);
      else if (part.type !== "input_image") texts.push(part.type === "refusal" ? part.refusal : part.text);
      else {
        images += countReservedImages(part.detail);
        imageTokensInAll += estimateImageTokens(part.image_url, part.detail);
        if (part.image_url.startsWith("data:")) mediaBytes += part.image_url.length;
      }
    }
  }
  mediaBytes += files.reduce((sum, each) => sum + Buffer.byteLength(each), 0);
  const documents = estimateDocumentTokens(files);
  return { texts, messages: items.length || 1, images, imageTokens: imageTokensInAll, documents, mediaBytes };
}

function partsOf(item: Item) {
  const isOutput = item.type === "function_call_output" || item.type === "custom_tool_call_output";
  const hasContent = item.type === "message" || item.type === "agent_message";
  const content = isOutput ? item.output : hasContent ? item.content : [];
  return typeof content === "string" ? [{ type: "input_text", text: content } as const] : content;
}
