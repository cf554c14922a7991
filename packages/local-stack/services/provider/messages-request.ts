import { z } from "zod";
import type { ChatMessage, ChatRequest, ChatTool } from "./chat-request.ts";

const block = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  cache_control: z.looseObject({ type: z.string(), ttl: z.string().optional() }).nullish(),
});
const content = z.union([z.string(), z.array(block)]);
const tool = z.looseObject({
  type: z.string().nullish(),
  name: z.string(),
  input_schema: z.unknown().optional(),
  max_uses: z.number().int().min(1).nullish(),
  cache_control: block.shape.cache_control,
});

/** The parts of a body of Anthropic's Messages API that are read both to count tokens and to answer. */
export const promptRequest = z.looseObject({
  model: z.string(),
  messages: z.array(z.looseObject({ role: z.enum(["user", "assistant", "system"]), content })).min(1),
  system: content.optional(),
  tools: z.array(tool).optional(),
  tool_choice: z.looseObject({ type: z.string(), name: z.string().optional() }).optional(),
  cache_control: block.shape.cache_control,
});

/**
 * The parts of the body of `POST /v1/messages` on which the demo's answer depends. Refuses `platform`, which the
 * gateway must remove before it calls a provider.
 */
export const messagesRequest = promptRequest.extend({
  max_tokens: z.number().int().min(0),
  stream: z.boolean().optional(),
  stop_sequences: z.array(z.string()).optional(),
  thinking: z.looseObject({ type: z.string() }).optional(),
  output_config: z.looseObject({ format: z.looseObject({ schema: z.unknown() }).nullish() }).optional(),
  platform: z.never().optional(),
});

export type PromptRequest = z.infer<typeof promptRequest>;
export type MessagesRequest = z.infer<typeof messagesRequest>;
type Block = z.infer<typeof block>;

export const blocksOf = (value: z.infer<typeof content> | undefined): Block[] =>
  typeof value === "string" ? [{ type: "text", text: value }] : (value ?? []);

/** Converts the request to an equivalent chat request, from which the answer is computed. */
export function toChatRequest(request: PromptRequest & Partial<MessagesRequest>): ChatRequest {
  const { model, messages, system, tools, tool_choice: choice, max_tokens, stop_sequences, output_config } = request;
  const schema = output_config?.format?.schema;
  const own = (tools ?? []).flatMap(({ type, name, input_schema }): ChatTool[] =>
    type == null || type === "custom" ? [{ type: "function", function: { name, parameters: input_schema } }] : [],
  );
  return {
    model,
    messages: [
      ...(system === undefined ? [] : [{ role: "system" as const, content: blocksOf(system) }]),
      ...messages.flatMap(toMessages),
    ],
    max_completion_tokens: max_tokens,
    stop: stop_sequences,
    ...(own.length > 0 ? { tools: own } : {}),
    ...(choice ? { tool_choice: toChoice(choice) } : {}),
    ...(schema === undefined ? {} : { response_format: { type: "json_schema", json_schema: { schema } } }),
  };
}

function toChoice({ type, name }: { type: string; name?: string | undefined }): ChatRequest["tool_choice"] {
  if (type === "tool" && name !== undefined) return { function: { name } };
  return { any: "required", none: "none" }[type] ?? "auto";
}

/** Converts tool results to separate messages, which come after the text that a client sends with them. */
function toMessages({ role, content: blocksOrText }: PromptRequest["messages"][number]): ChatMessage[] {
  const blocks = blocksOf(blocksOrText);
  const results = blocks.filter(({ type }) => type === "tool_result");
  const calls = blocks.filter(({ type }) => type === "tool_use");
  const rest = blocks.filter(({ type }) => type !== "tool_result" && type !== "tool_use");
  return [
    ...(rest.length > 0 || calls.length > 0
      ? [{ role, content: rest.map(toPart), ...(calls.length > 0 ? { tool_calls: calls } : {}) }]
      : []),
    ...results.map((result) => ({ role: "tool" as const, content: blocksOf(content.catch("").parse(result.content)) })),
  ];
}

function toPart({ type, text }: Block) {
  return { type: type === "image" ? "image_url" : type, text };
}
