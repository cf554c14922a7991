import { z } from "zod";
import { isObject } from "../../_shared/json.ts";
import { readClaudeCodeSession } from "../admission/session-label.ts";
import { answerCall } from "../answers/answer-call.ts";
import type { AnswerFormat } from "../answers/answer-format.ts";
import type { Surface } from "../calls/surface.ts";
import { anthropicErrors } from "../http/anthropic-errors.ts";
import { bodyLimits } from "../http/body.ts";
import { readCompletionUsage, readMessageUsage, readTier } from "../usage/read-usage.ts";
import { createMessageAssembly } from "./assembly.ts";
import { createMessagesReader } from "./events.ts";
import { replayMessage } from "./replay.ts";
import {
  type CountTokens,
  countTokensProviderRequest,
  type Messages,
  messagesProviderRequest,
  readCountTokens,
  readMessages,
} from "./request.ts";

/** `POST /v1/messages`. */
export const messagesSurface: Surface<Messages> = {
  feature: "messages",
  kind: "chat",
  endpoint: "messages",
  keyHeader: "x-api-key",
  errors: anthropicErrors,
  limitBytes: bodyLimits.messages,
  read: readMessages,
  session: ({ body }) => readClaudeCodeSession(body.metadata?.user_id),
  request: messagesProviderRequest,
  // Anthropic's SDKs skip pings, also before the first event (@anthropic-ai/sdk, core/streaming.ts).
  keepalive: () => 'event: ping\ndata: {"type":"ping"}\n\n',
  replayStream: replayMessage,
  answer: (gateway, call) => answerCall(gateway, call, messagesFormat),
};

/** The parts of a message that the gateway reads. */
export const messageAnswer = z.looseObject({
  type: z.literal("message"),
  content: z.array(z.unknown()),
  usage: z.looseObject({ service_tier: z.unknown().optional() }).optional(),
});

/**
 * Matches the output texts of a whole message. A tool's input may have strings under any name, so the pattern excludes
 * only the known members that are not output.
 */
const wholeTexts = /"(?!(?:id|type|role|model|stop_reason|stop_sequence|signature|service_tier)")[^"\\]*"\s*:\s*"/g;
const neverPattern = /(?!)/g;

function isEmptyText(block: unknown): boolean {
  return isObject(block) && block.type === "text" && block.text === "";
}

/** Reads whole and streamed messages. */
export const messagesFormat: AnswerFormat<Messages> = {
  readAnswer(value, limits) {
    const { success, data } = messageAnswer.safeParse(value);
    if (!success) {
      if (!isObject(value)) return undefined;
      return { usage: readCompletionUsage(value.usage, { ...limits, outputIsOptional: true }), unreadable: true };
    }
    const { usage, content, stop_reason } = data;
    const isEmpty = content.every(isEmptyText);
    return {
      usage: readMessageUsage(usage, limits),
      servedTier: usage && readTier(usage),
      // A refusal explains itself outside the content.
      output: isEmpty ? neverPattern : wholeTexts,
      ending: stop_reason === "refusal" && isEmpty ? "refusal" : undefined,
    };
  },
  createReader({ open, usageLimits }) {
    return createMessagesReader({ usageLimits, assembly: open.run.capture ? createMessageAssembly() : undefined });
  },
};

/**
 * `POST /v1/messages/count_tokens`. Admitted like any call, but free
 * (https://platform.claude.com/docs/en/build-with-claude/token-counting).
 */
export const countTokensSurface: Surface<CountTokens> = {
  feature: "count_tokens",
  kind: "chat",
  endpoint: "count_tokens",
  keyHeader: "x-api-key",
  errors: anthropicErrors,
  limitBytes: bodyLimits.messages,
  read: readCountTokens,
  request: countTokensProviderRequest,
  answer: (gateway, call) => answerCall(gateway, call, countFormat),
};

export const tokenCount = z.looseObject({ input_tokens: z.number().int().min(0) });

/** Reads the answer to a token count. The call itself uses no tokens. */
const countFormat: AnswerFormat<CountTokens> = {
  readAnswer: (value) =>
    tokenCount.safeParse(value).success
      ? { usage: { counts: { input_tokens: 0, output_tokens: 0 } }, output: neverPattern }
      : undefined,
};
