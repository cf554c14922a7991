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
  platform: z.record(z.string(), z.unknown()),
});

/** A kept chat as a stream: all its content in one chunk, its usage where that was asked for, and its completion. */
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
  const chunks: object[] = [{ ...head, choices: content }];
  if (request.stream_options?.include_usage && usage) chunks.push({ ...head, choices: [], usage });
  const events = chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("");
  return events + completedEvent({ id, created, model, platform });
}
