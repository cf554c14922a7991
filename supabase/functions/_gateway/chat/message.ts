import { z } from "zod";
import type { ToolCall, Turn } from "../tools/tool-loop.ts";

const toolCall = z.looseObject({
  id: z.string(),
  function: z.looseObject({ name: z.string(), arguments: z.string() }),
});
const completion = z.looseObject({
  choices: z
    .array(
      z.looseObject({
        message: z.looseObject({ content: z.string().nullish(), tool_calls: z.array(toolCall).nullish() }),
      }),
    )
    .min(1),
});

/** What a model said in a whole chat completion; in an answer that has no message, nothing. */
export function readMessage(value: unknown): Turn {
  const message = completion.safeParse(value).data?.choices[0]?.message;
  const toolCalls = (message?.tool_calls ?? []).map(({ id, function: { name, arguments: text } }) => ({
    id,
    name,
    arguments: text,
  }));
  return assistantTurn(message?.content ?? null, toolCalls);
}

/** A message with calls of tools, as a model is told what it said before. */
export function assistantTurn(content: string | null, toolCalls: readonly ToolCall[]): Turn {
  const tool_calls = toolCalls.map(({ id, name, arguments: text }) => ({
    id,
    type: "function",
    function: { name, arguments: text },
  }));
  return { said: [{ role: "assistant", content, tool_calls }], toolCalls };
}
