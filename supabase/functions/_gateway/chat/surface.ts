import { z } from "zod";
import { isObject } from "../../_shared/json.ts";
import { answerCall } from "../answers/answer-call.ts";
import type { AnswerFormat } from "../answers/answer-format.ts";
import { hasError } from "../answers/error-events.ts";
import type { Surface } from "../calls/surface.ts";
import { bodyLimits } from "../http/body.ts";
import { answerWithTools, type ToolDialect } from "../tools/tool-loop.ts";
import { readTier } from "../usage/read-usage.ts";
import { addUsage, chatUsageNames } from "../usage/total-usage.ts";
import { createAssembly } from "./assembly.ts";
import { isFinishReason, readChatTexts, readChatUsage, readMessage, withoutToolCalls } from "./completion.ts";
import { completedEvent, createChatReader, outputTexts } from "./events.ts";
import { chatProviderRequest } from "./provider-request.ts";
import { type Chat, readChat } from "./request.ts";
import { correctToolCalls } from "./tool-calls.ts";
import { type AnswerIdentity, createStepReader } from "./tool-events.ts";

/** `POST /v1/chat/completions`. */
export const chatSurface: Surface<Chat> = {
  feature: "chat",
  kind: "chat",
  endpoint: "chat",
  limitBytes: bodyLimits.text,
  read: readChat,
  request: chatProviderRequest,
  replayStream: replayChat,
  answer(gateway, call) {
    const { serverTools } = call.request;
    return serverTools
      ? answerWithTools(gateway, call, { serverTools, dialect: chatTools })
      : answerCall(gateway, call, chatFormat);
  },
};

/** The parts of a chat completion that the gateway reads. */
export const completionSchema = z.looseObject({ choices: z.array(z.unknown()).min(1), usage: z.unknown().optional() });

function hasFinished(choice: unknown): boolean {
  return isObject(choice) && isFinishReason(choice.finish_reason);
}

/** Reads whole and streamed chat completions. */
export const chatFormat = {
  readAnswer(value, limits) {
    const { success, data } = completionSchema.safeParse(value);
    if (!success) {
      if (!isObject(value)) return undefined;
      return {
        usage: readChatUsage(value, { ...limits, outputIsOptional: true }),
        unreadable: true,
        ending: "nothing",
      };
    }
    const failed = hasError(data);
    return {
      usage: readChatUsage(data, { ...limits, outputIsOptional: failed }),
      servedTier: readTier(data),
      ending: failed ? "error" : data.choices.some(hasFinished) ? undefined : "nothing",
      output: outputTexts,
      // OpenRouter may put an error next to a choice, in whole and in streamed answers:
      // openrouter.ai/docs/api-reference/errors
      failed,
      corrected: correctToolCalls(data.choices),
      texts: () => readChatTexts(value),
    };
  },
  createReader({ request, model, open, usageLimits }) {
    const wantsUsage = request.body.stream_options?.include_usage === true;
    const assembly = request.checkAnswer || open.run.capture ? createAssembly() : undefined;
    const unnamed = { id: open.run.run_id, model };
    return createChatReader({ wantsUsage, usageLimits, choices: request.choices, assembly, unnamed });
  },
} satisfies AnswerFormat<Chat>;

const chatTools: ToolDialect<Chat> = {
  format: chatFormat,
  stepRequest(request, { first, last, additions }) {
    const { tool_choice, ...body } = request.body;
    // Sends the client's `tool_choice` only on the first step. Disables tools on the last step.
    const choice = last ? "none" : first ? tool_choice : undefined;
    const messages = [...body.messages, ...additions];
    return { ...request, body: { ...body, messages, ...(choice === undefined ? {} : { tool_choice: choice }) } };
  },
  readTurn: readMessage,
  toolResult: ({ id }, content) => ({ role: "tool", tool_call_id: id, content }),
  wholeAnswer: (last, { usage }) => ({
    ...last,
    choices: withoutToolCalls(last.choices),
    usage: addUsage(last.usage, usage, chatUsageNames),
  }),
  createReaders({ request, model, open }) {
    const name: AnswerIdentity = { created: 0, model };
    const assembly = request.checkAnswer || open.run.capture ? createAssembly() : undefined;
    const wantsUsage = request.body.stream_options?.include_usage === true;
    return (step) => createStepReader({ ...step, name, assembly, wantsUsage });
  },
};

const storedChat = z.looseObject({
  id: z.string(),
  created: z.number(),
  model: z.string(),
  choices: z.array(
    z.looseObject({
      index: z.number(),
      message: z.looseObject({ tool_calls: z.array(z.looseObject({})).optional() }),
      logprobs: z.unknown().optional(),
      finish_reason: z.string().nullable(),
    }),
  ),
  usage: z.unknown().optional(),
  platform: z.looseObject({ usage: z.record(z.string(), z.number()) }),
});

/** Returns a stored chat as a stream: one chunk with all content, and then the closing event. */
export function replayChat(answer: unknown, { body }: Chat): string {
  const { id, created, model, choices, usage, platform } = storedChat.parse(answer);
  const head = { id, object: "chat.completion.chunk", created, model };
  const content = choices.map(({ index, message: { tool_calls, ...message }, logprobs = null, finish_reason }) => ({
    index,
    delta: {
      ...message,
      ...(tool_calls ? { tool_calls: tool_calls.map((call, at) => ({ index: at, ...call })) } : {}),
    },
    logprobs,
    finish_reason,
  }));
  const wantsUsage = body.stream_options?.include_usage === true;
  const completion = completedEvent({ id, created, model, wantsUsage, usage, platform });
  return `data: ${JSON.stringify({ ...head, choices: content })}\n\n${completion}`;
}
