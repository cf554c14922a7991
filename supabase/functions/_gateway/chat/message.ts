import { z } from "zod";

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

/** A call of a tool, as a model makes it. */
export type ToolCall = { id: string; name: string; arguments: string };

/** What a model said in one step: text, and calls of tools. */
export type ModelMessage = { content: string | null; toolCalls: ToolCall[] };

/** The message of a whole chat completion; of an answer that has none, nothing. */
export function readMessage(value: unknown): ModelMessage {
  const parsed = completion.safeParse(value);
  const message = parsed.data?.choices[0]?.message;
  const toolCalls = (message?.tool_calls ?? []).map(({ id, function: { name, arguments: text } }) => ({
    id,
    name,
    arguments: text,
  }));
  return { content: message?.content ?? null, toolCalls };
}

/** The message as a model is told what it said before. */
export function assistantMessage({ content, toolCalls }: ModelMessage): object {
  const tool_calls = toolCalls.map(({ id, name, arguments: text }) => ({
    id,
    type: "function",
    function: { name, arguments: text },
  }));
  return { role: "assistant", content, tool_calls };
}
