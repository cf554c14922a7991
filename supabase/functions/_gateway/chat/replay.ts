import { z } from "zod";
import { completedEvent } from "./events.ts";
import type { Chat } from "./request.ts";

const kept = z.looseObject({
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

/** A kept chat as a stream: all its content in one chunk, and its completion. */
export function replayChat(answer: unknown, { request }: Chat): string {
  const { id, created, model, choices, usage, platform } = kept.parse(answer);
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
  const usageAsked = request.stream_options?.include_usage === true;
  const completion = completedEvent({ id, created, model, usageAsked, usage, platform });
  return `data: ${JSON.stringify({ ...head, choices: content })}\n\n${completion}`;
}
