import { z } from "zod";
import { isObject } from "../../_shared/json.ts";
import { answerCall } from "../answers/answer-call.ts";
import type { AnswerFormat } from "../answers/answer-format.ts";
import type { Surface } from "../calls/surface.ts";
import { bodyLimits } from "../http/body.ts";
import { answerWithTools, type ToolDialect, type Turn } from "../tools/tool-loop.ts";
import { readTier } from "../usage/read-usage.ts";
import { addUsage, responseUsageNames } from "../usage/total-usage.ts";
import { failedEvent, responsesErrors } from "./errors.ts";
import { createResponsesReader, mayBeStored, notStored, readResponseTexts, readResponseUsage } from "./events.ts";
import { progressEvents } from "./progress.ts";
import { responsesProviderRequest } from "./provider-request.ts";
import { replayResponse } from "./replay.ts";
import { type Responses, readResponses } from "./request.ts";
import { createStepReader, isHidden, type SharedStepState } from "./tool-events.ts";

/** `POST /v1/responses`, without stored state. */
export const responsesSurface: Surface<Responses> = {
  feature: "responses",
  kind: "chat",
  endpoint: "responses",
  errors: responsesErrors,
  limitBytes: bodyLimits.text,
  read: readResponses,
  request: responsesProviderRequest,
  keepalive: progressEvents,
  failure: (error, { request: { progress }, requestId }) =>
    failedEvent(error, requestId, { response: progress.response, events: progress.nextSequence?.() ?? 0 }),
  replayStream: replayResponse,
  answer(gateway, call) {
    const { serverTools } = call.request;
    return serverTools
      ? answerWithTools(gateway, call, { serverTools, dialect: responsesTools })
      : answerCall(gateway, call, responsesFormat);
  },
};

/** The parts of a response that the gateway reads. */
export const responseSchema = z.looseObject({
  output: z.array(z.unknown()),
  status: z.string().optional(),
  usage: z.unknown().optional(),
});

/** Matches the output texts of a whole response. */
const wholeTexts = /"(?:text|refusal|arguments|input)"\s*:\s*"/g;

/** Reads whole and streamed responses. */
export const responsesFormat: AnswerFormat<Responses> = {
  readAnswer(value, limits) {
    const { success, data } = responseSchema.safeParse(value);
    if (!success) {
      if (!isObject(value)) return undefined;
      return { usage: readResponseUsage(value, { ...limits, outputIsOptional: true }), unreadable: true };
    }
    const failed = data.status === "failed" || data.status === "cancelled";
    const corrected = isObject(value) && mayBeStored(value);
    if (corrected) Object.assign(value, notStored);
    return {
      usage: readResponseUsage(data, { ...limits, outputIsOptional: failed }),
      servedTier: readTier(data),
      ending: failed ? "error" : undefined,
      output: wholeTexts,
      texts: () => readResponseTexts(value),
      failed,
      corrected,
    };
  },
  createReader: ({ usageLimits, request }, { isRelayed } = { isRelayed: false }) =>
    createResponsesReader({ usageLimits, progress: isRelayed ? request.progress : undefined }),
};

const functionCall = z.looseObject({
  type: z.literal("function_call"),
  call_id: z.string(),
  name: z.string(),
  arguments: z.string(),
});
const itemList = z.looseObject({ output: z.array(z.looseObject({ type: z.string() })) });
type Item = z.infer<typeof itemList>["output"][number];

const responsesTools: ToolDialect<Responses> = {
  format: responsesFormat,
  stepRequest(request, { first, last, additions }) {
    const { tool_choice, input, ...body } = request.body;
    // Sends the client's `tool_choice` only on the first step. Disables tools on the last step.
    const choice = last ? "none" : first ? tool_choice : undefined;
    const items = typeof input === "string" ? [{ type: "message", role: "user", content: input }] : input;
    return {
      ...request,
      body: {
        ...body,
        input: additions.length > 0 ? [...items, ...additions] : input,
        ...(choice === undefined ? {} : { tool_choice: choice }),
      },
    };
  },
  readTurn,
  toolResult: ({ id }, content) => ({ type: "function_call_output", call_id: id, output: content }),
  wholeAnswer(last, { answers, usage }) {
    const output = [...answers, last].flatMap(clientItems);
    return { ...last, output, usage: addUsage(last.usage, usage, responseUsageNames) };
  },
  createReaders({ request: { progress } }) {
    const conversation: SharedStepState = { progress, nextIndex: 0, nextSequence: 0, earlierItems: [] };
    progress.nextSequence = () => conversation.nextSequence++;
    let readEarlier: (() => unknown) | undefined;
    return (step) => {
      if (readEarlier) conversation.earlierItems.push(...clientItems(readEarlier()));
      const { response, ...reader } = createStepReader({ ...step, conversation });
      readEarlier = response;
      return { ...reader, turn: () => readTurn(response()) };
    };
  },
};

function readTurn(answer: unknown): Turn {
  const items = itemsOf(answer);
  const toolCalls = items.flatMap((item) => {
    const { data } = functionCall.safeParse(item);
    return data ? [{ id: data.call_id, name: data.name, arguments: data.arguments }] : [];
  });
  return { output: items.flatMap(convertToInput), toolCalls };
}

/**
 * Returns an output item as input for the next step. Omits the provider's id and status: the provider would look up the
 * id, but it has not stored the item.
 */
function convertToInput({ id, status, ...item }: Item): object[] {
  const known = item.type === "message" || item.type === "function_call";
  return known || (item.type === "reasoning" && item.encrypted_content) ? [item] : [];
}

/** Returns the items of a step that the client sees, which are all items except calls of our tools. */
function clientItems(answer: unknown): Item[] {
  return itemsOf(answer).filter(({ type }) => !isHidden(type));
}

function itemsOf(answer: unknown): Item[] {
  return itemList.safeParse(answer).data?.output ?? [];
}
