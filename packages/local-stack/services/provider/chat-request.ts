import { z } from "zod";

const textPart = z.looseObject({ type: z.string(), text: z.string().nullish(), refusal: z.string().nullish() });
const message = z.looseObject({
  role: z.enum(["developer", "system", "user", "assistant", "tool", "function"]),
  content: z.union([z.string(), z.array(textPart)]).nullish(),
  // OpenAI rejects an empty list with 400 `empty_array`: https://github.com/openai/openai-node/pull/1341
  tool_calls: z.array(z.unknown()).min(1).nullish(),
});
const namespace = z.string().optional();
const tool = z.discriminatedUnion("type", [
  z.looseObject({
    type: z.literal("function"),
    function: z.looseObject({ name: z.string(), parameters: z.unknown().optional() }),
    namespace,
  }),
  z.looseObject({ type: z.literal("custom"), custom: z.looseObject({ name: z.string() }), namespace }),
]);

/** The parts of the body of `POST /v1/chat/completions` on which the demo's response depends. */
export const chatRequest = z.looseObject({
  model: z.string(),
  messages: z.array(message).min(1),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().optional() }).nullish(),
  n: z.number().int().min(1).max(128).nullish(),
  max_tokens: z.number().int().min(1).nullish(),
  max_completion_tokens: z.number().int().min(1).nullish(),
  stop: z.union([z.string(), z.array(z.string())]).nullish(),
  tools: z.array(tool).nullish(),
  tool_choice: z
    .union([
      z.string(),
      z.looseObject({
        function: z.looseObject({ name: z.string() }).optional(),
        custom: z.looseObject({ name: z.string() }).optional(),
      }),
    ])
    .nullish(),
  response_format: z
    .looseObject({ type: z.string(), json_schema: z.looseObject({ schema: z.unknown().optional() }).optional() })
    .nullish(),
});

export type ChatRequest = z.infer<typeof chatRequest>;
export type ChatTool = z.infer<typeof tool>;
export type ChatMessage = ChatRequest["messages"][number];

/** Returns a message's text; parts without text count as empty. */
export function textOf({ content }: ChatMessage): string {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => part.text ?? part.refusal ?? "").join("");
}

/** Returns the user's last message. */
export function lastPrompt({ messages }: ChatRequest): string {
  const last = messages.findLast(({ role }) => role === "user");
  return last ? textOf(last) : "";
}
