import { Buffer } from "node:buffer";
import { isObject } from "../../_shared/json.ts";
import { GatewayError } from "../http/errors.ts";
import { createUnsupportedError, parseOpenBody } from "../http/parse-body.ts";
import { stringifyWithSource } from "../http/source-json.ts";
import { clientHints } from "../providers/kinds/kind.ts";
import { measureInput } from "../requests/measure-input.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";
import { leaveOutTemplates, outputLimits } from "../requests/text-fields.ts";
import { prepareAnswerCheck } from "../structured/answer-schema.ts";
import { leaveOutHostedTools } from "../tools/hosted-tools.ts";
import { toolDefinition } from "../tools/run-tool.ts";
import { readServerTools, type ServerTools } from "../tools/tool-request.ts";
import { readHourWrites } from "../usage/cache-lifetimes.ts";
import { estimateDocumentTokens } from "../usage/documents.ts";
import { countReservedImages, estimateAudioSeconds, estimateImageTokens } from "../usage/media.ts";
import { type ChatRequest, chatSchema, refusedMembers } from "./schema.ts";

/** A parsed chat request, with the facts that admission and metering need. */
export type Chat = ParsedRequest & { body: ForwardableBody; serverTools?: ServerTools };

/** The current and the older name of OpenAI's output limit. */
const limitNames = ["max_completion_tokens", "max_tokens"] as const;

/** The request fields that can be sent to a provider, without the gateway's own fields. */
type ForwardableBody = Omit<ChatRequest, "messages" | "tools" | "platform" | "max_steps"> & {
  messages: readonly object[];
  tools?: readonly object[];
};

/**
 * Validates a parsed body against the supported fields.
 * @throws GatewayError `invalid_request` or `unsupported_parameter`, with the field
 */
export function readChat(value: unknown, bodyBytes: number): Chat {
  const { body: parsedBody, others: allOthers } = parseOpenBody(chatSchema, value, refusedMembers);
  const { others, ignored: ignoredTemplates } = leaveOutTemplates(allOthers);
  const { body, ignored: ignoredTools } = leaveOutHostedTools(parsedBody, allowedTools(parsedBody));
  const { reasoning } = others;
  if (isObject(reasoning) && ![undefined, null, "standard"].includes(reasoning.mode as string)) {
    throw createUnsupportedError("reasoning.mode", "It makes several answers: raise effort instead.");
  }
  if (body.max_tokens !== undefined && body.max_completion_tokens !== undefined) {
    throw new GatewayError("invalid_request", {
      param: "max_tokens",
      message: "max_tokens and max_completion_tokens mean the same: send one.",
    });
  }
  const limitName = limitNames.find((name) => body[name] !== undefined);
  const serverTools = readServerTools(body);
  const format = body.response_format;
  const checkAnswer =
    format?.type === "json_schema"
      ? prepareAnswerCheck(format.json_schema, "response_format.json_schema.schema")
      : undefined;
  const input = readInput(body);
  const { platform, max_steps, tools, ...fields } = body;
  const functions = serverTools
    ? serverTools.tools.map((name) => ({ type: "function", function: toolDefinition(name) }))
    : tools?.filter((tool) => typeof tool === "object");
  return {
    body: functions ? { ...fields, tools: functions } : fields,
    others,
    hints: clientHints.filter((name) => body[name] !== undefined),
    ignored: [...ignoredTools, ...ignoredTemplates],
    serverTools,
    model: body.model,
    stream: body.stream === true,
    serviceTier: body.service_tier,
    outputLimit: (limitName && body[limitName]) ?? outputLimits.default,
    outputLimitAssumed: limitName === undefined,
    sizeFields: { input: "messages", output: limitName ?? limitNames[0] },
    choices: body.n ?? 1,
    audio: input.audioSeconds > 0,
    ...(input.audioSeconds > 0 ? { audioSeconds: Math.ceil(input.audioSeconds) } : {}),
    checkAnswer,
    hourWrites: readHourWrites([functions, body.messages]),
    ...measureInput(input, {
      bodyBytes,
      definitions: [functions, format],
      addedBytes: serverTools ? JSON.stringify(functions).length : 0,
    }),
  };
}

function allowedTools({ tool_choice: choice }: ChatRequest) {
  return typeof choice === "object" && choice.type === "allowed_tools" ? choice.allowed_tools.tools : undefined;
}

/** Returns the texts and media in the messages. `mediaBytes` is the part of the body that is not text. */
function readInput({ messages }: ChatRequest) {
  const texts: string[] = [];
  const documents: string[] = [];
  let [images, imageTokensInAll, seconds, mediaBytes] = [0, 0, 0, 0];
  for (const message of messages) {
    const { content } = message;
    if (message.role === "assistant" && message.tool_calls) texts.push(stringifyWithSource(message.tool_calls));
    if (typeof content === "string") texts.push(content);
    if (!Array.isArray(content)) continue;
    for (const part of content) {
      if (part.type === "image_url") {
        const { url, detail } = part.image_url;
        images += countReservedImages(detail);
        imageTokensInAll += estimateImageTokens(url, detail);
        if (url.startsWith("data:")) mediaBytes += url.length;
      } else if (part.type === "input_audio") {
        seconds += estimateAudioSeconds(part.input_audio);
        mediaBytes += part.input_audio.data.length;
      } else if (part.type === "file") documents.push(part.file.file_data);
      else if (part.type === "refusal") texts.push(part.refusal);
      else texts.push(part.type === "text" ? part.text : stringifyWithSource(part));
    }
  }
  mediaBytes += documents.reduce((sum, each) => sum + Buffer.byteLength(each), 0);
  return {
    texts,
    messages: messages.length,
    images,
    imageTokens: imageTokensInAll,
    audioSeconds: seconds,
    documents: estimateDocumentTokens(documents),
    mediaBytes,
  };
}
