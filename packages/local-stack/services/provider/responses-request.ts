import { z } from "zod";
import type { ChatMessage, ChatRequest, ChatTool } from "./chat-request.ts";

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
const output = z.union([z.string(), z.array(contentPart)]);
const outputItem = z.looseObject({
  type: z.enum(["function_call_output", "custom_tool_call_output"]),
  call_id: z.string(),
  output,
});
const customCallItem = z.looseObject({
  type: z.literal("custom_tool_call"),
  call_id: z.string(),
  name: z.string(),
  input: z.string(),
});
const reasoningItem = z.looseObject({ type: z.literal("reasoning") });
const ownTool = z.looseObject({ type: z.enum(["function", "custom"]), name: z.string() });
type OwnTool = z.infer<typeof ownTool>;
const namespaceTool = z.looseObject({ type: z.literal("namespace"), name: z.string(), tools: z.array(ownTool).min(1) });
const tool = z.union([ownTool, namespaceTool]);
const toolsItem = z.looseObject({
  type: z.literal("additional_tools"),
  role: z.literal("developer"),
  tools: z.array(tool).min(1),
});
const item = z.union([callItem, customCallItem, outputItem, reasoningItem, toolsItem, messageItem]);

/** The parts of the body of `POST /v1/responses` on which the demo's response depends. */
export const responsesRequest = z.looseObject({
  model: z.string(),
  input: z.union([z.string().min(1), z.array(item).min(1)]),
  instructions: z.string().nullish(),
  stream: z.boolean().nullish(),
  max_output_tokens: z.number().int().min(1).nullish(),
  tools: z.array(tool).nullish(),
  tool_choice: z.union([z.string(), z.looseObject({ name: z.string().optional() })]).nullish(),
  text: z.looseObject({ format: z.looseObject({ type: z.string() }).optional() }).nullish(),
});

type ResponsesRequest = z.infer<typeof responsesRequest>;

/** Converts the request to an equivalent chat, which determines the response and its cost. */
export function toChatRequest(request: ResponsesRequest): ChatRequest {
  const { model, input, instructions, max_output_tokens, tool_choice: choice, text } = request;
  const items = typeof input === "string" ? [{ role: "user" as const, content: input }] : input;
  const tools = toolsOf(request);
  return {
    model,
    messages: [
      ...(instructions ? [{ role: "developer" as const, content: instructions }] : []),
      ...items.flatMap(toMessages),
    ],
    max_completion_tokens: max_output_tokens,
    tools: tools.length > 0 ? tools : undefined,
    tool_choice: typeof choice === "object" && choice?.name ? { function: { name: choice.name } } : (choice as string),
    response_format: { type: text?.format?.type ?? "text", json_schema: { schema: text?.format?.schema } },
  };
}

/** Returns the tools of a request and of its input items. */
function toolsOf({ input, tools }: ResponsesRequest): ChatTool[] {
  const inputTools =
    typeof input === "string" ? [] : input.flatMap((each) => toolsItem.safeParse(each).data?.tools ?? []);
  return [...(tools ?? []), ...inputTools].flatMap((each) => {
    const namespace = namespaceTool.safeParse(each).data;
    if (!namespace) return [toChatTool(each as OwnTool)];
    return namespace.tools.map((inner) => toChatTool(inner, namespace.name));
  });
}

function toChatTool({ type, name, parameters }: OwnTool, namespace?: string): ChatTool {
  const called = type === "custom" ? { type, custom: { name } } : { type, function: { name, parameters } };
  return namespace === undefined ? called : { ...called, namespace };
}

type Item = z.infer<typeof item> | z.infer<typeof messageItem>;

function toMessages(each: Item): ChatMessage[] {
  switch (each.type) {
    case "reasoning":
    case "additional_tools":
      return [];
    case "function_call_output":
    case "custom_tool_call_output":
      return [{ role: "tool", content: each.output as z.infer<typeof output> }];
    case "function_call":
      return [
        calling({ id: each.call_id, type: "function", function: { name: each.name, arguments: each.arguments } }),
      ];
    case "custom_tool_call":
      return [calling({ id: each.call_id, type: "custom", custom: { name: each.name, input: each.input } })];
    default:
      return [toMessage(each as z.infer<typeof messageItem>)];
  }
}

function calling(call: object): ChatMessage {
  return { role: "assistant", content: null, tool_calls: [call] };
}

function toMessage({ role, content }: z.infer<typeof messageItem>): ChatMessage {
  if (typeof content === "string") return { role, content };
  return { role, content: content.map((part) => ({ ...part, type: part.type.replace(/^input_image$/, "image_url") })) };
}
