import { z } from "zod";
import type { ChatMessage, ChatRequest } from "./chat-request.ts";

const contentPart = z.looseObject({ type: z.string(), text: z.string().optional() });
const messageItem = z.looseObject({
  type: z.literal("message").optional(),
  role: z.enum(["user", "assistant", "system", "developer"]),
  content: z.union([z.string(), z.array(contentPart)]),
});
const callItem = z.looseObject({
  type: z.literal("function_call"),
  call_id: z.string(),
  name: z.string(),
  arguments: z.string(),
});
const outputItem = z.looseObject({ type: z.literal("function_call_output"), call_id: z.string(), output: z.string() });

/** The body of `POST /v1/responses`, as far as the demo's answer depends on it. */
export const responsesRequest = z.looseObject({
  model: z.string(),
  input: z.union([z.string().min(1), z.array(z.union([callItem, outputItem, messageItem])).min(1)]),
  instructions: z.string().nullish(),
  stream: z.boolean().nullish(),
  max_output_tokens: z.number().int().min(1).nullish(),
  tools: z.array(z.looseObject({ type: z.literal("function"), name: z.string() })).nullish(),
  tool_choice: z.union([z.string(), z.looseObject({ name: z.string().optional() })]).nullish(),
  text: z.looseObject({ format: z.looseObject({ type: z.string() }).optional() }).nullish(),
});

type ResponsesRequest = z.infer<typeof responsesRequest>;

/** The chat that says the same, which decides what is answered and what it costs. */
export function toChatRequest(request: ResponsesRequest): ChatRequest {
  const { model, input, instructions, max_output_tokens, tools, tool_choice: choice, text } = request;
  const items = typeof input === "string" ? [{ role: "user" as const, content: input }] : input;
  return {
    model,
    messages: [
      ...(instructions ? [{ role: "developer" as const, content: instructions }] : []),
      ...items.map(toMessage),
    ],
    max_completion_tokens: max_output_tokens,
    tools: tools?.map(({ type: kind, name, parameters }) => ({ type: kind, function: { name, parameters } })),
    tool_choice: typeof choice === "object" && choice?.name ? { function: { name: choice.name } } : (choice as string),
    response_format: { type: text?.format?.type ?? "text", json_schema: { schema: text?.format?.schema } },
  };
}

function toMessage(item: Exclude<ResponsesRequest["input"], string>[number]): ChatMessage {
  if (item.type === "function_call_output") return { role: "tool", content: item.output as string };
  if (item.type === "function_call") {
    const called = { name: item.name, arguments: item.arguments };
    return { role: "assistant", content: null, tool_calls: [{ id: item.call_id, type: "function", function: called }] };
  }
  const { role, content } = item as z.infer<typeof messageItem>;
  if (typeof content === "string") return { role, content };
  return { role, content: content.map((part) => ({ ...part, type: part.type.replace(/^input_image$/, "image_url") })) };
}
