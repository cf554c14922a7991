import { z } from "zod";
import {
  endUser,
  functionName,
  imageDetail,
  imageUrl,
  jsonSchema,
  metadata,
  modelName,
  outputLimit,
  probability,
  reasoningEffort,
  temperature,
  verbosity,
} from "../text-fields.ts";
import { serverToolName, toolLoopFields } from "../tools/tool-request.ts";

const itemState = {
  id: z.string().max(512).nullish(),
  status: z.enum(["in_progress", "completed", "incomplete"]).nullish(),
};
const part = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("input_text"), text: z.string() }),
  z.strictObject({
    type: z.literal("input_image"),
    image_url: imageUrl,
    detail: imageDetail.nullish(),
    file_id: z.null().optional(),
  }),
  // Answers have these; clients send answers back as they came.
  z.strictObject({
    type: z.literal("output_text"),
    text: z.string(),
    annotations: z.array(z.unknown()).optional(),
    logprobs: z.array(z.unknown()).nullish(),
  }),
  z.strictObject({ type: z.literal("refusal"), refusal: z.string() }),
]);
const content = z.union([z.string(), z.array(part).min(1)]);
const summary = z.strictObject({ type: z.literal("summary_text"), text: z.string() });
const reasoningText = z.strictObject({ type: z.literal("reasoning_text"), text: z.string() });

const item = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("message"),
    role: z.enum(["user", "assistant", "system", "developer"]),
    content,
    phase: z.enum(["commentary", "final_answer"]).nullish(),
    ...itemState,
  }),
  z.strictObject({
    type: z.literal("function_call"),
    call_id: z.string(),
    name: z.string(),
    arguments: z.string(),
    ...itemState,
  }),
  z.strictObject({ type: z.literal("function_call_output"), call_id: z.string(), output: content, ...itemState }),
  // Whoever keeps nothing gets a model's reasoning back from the client, encrypted.
  z.strictObject({
    type: z.literal("reasoning"),
    summary: z.array(summary),
    content: z.array(reasoningText).nullish(),
    encrypted_content: z.string().nullish(),
    ...itemState,
  }),
]);

/** A message may leave out that it is one. */
const inputItem = z.preprocess((value) => {
  const message = typeof value === "object" && value !== null && "role" in value && !("type" in value);
  return message ? { type: "message", ...value } : value;
}, item);

const functionTool = z.strictObject({
  type: z.literal("function"),
  name: functionName,
  description: z.string().nullish(),
  parameters: z.record(z.string(), z.unknown()).nullish(),
  strict: z.boolean().nullish(),
});
const format = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text") }),
  z.strictObject({ type: z.literal("json_object") }),
  z.strictObject({
    type: z.literal("json_schema"),
    name: functionName,
    description: z.string().optional(),
    schema: jsonSchema,
    strict: z.boolean().nullish(),
  }),
]);

/** The fields of OpenAI's responses that pass. Whatever stands in no list here is refused; nothing is ever stored. */
export const responsesSchema = z.strictObject({
  model: modelName,
  input: z.union([z.string().min(1), z.array(inputItem).min(1)]),
  instructions: z.string().nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.strictObject({ include_obfuscation: z.boolean().optional() }).nullish(),
  max_output_tokens: outputLimit.nullish(),
  max_completion_tokens: outputLimit.nullish(),
  max_tokens: outputLimit.nullish(),
  temperature: temperature.nullish(),
  top_p: probability.nullish(),
  top_logprobs: z.number().int().min(0).max(20).nullish(),
  // A text names a server tool.
  tools: z
    .array(z.union([functionTool, serverToolName]))
    .max(128)
    .optional(),
  ...toolLoopFields,
  tool_choice: z
    .union([z.enum(["none", "auto", "required"]), z.strictObject({ type: z.literal("function"), name: functionName })])
    .optional(),
  parallel_tool_calls: z.boolean().nullish(),
  text: z.strictObject({ format: format.optional(), verbosity: verbosity.nullish() }).optional(),
  reasoning: z
    .strictObject({
      effort: reasoningEffort.nullish(),
      summary: z.enum(["auto", "concise", "detailed"]).nullish(),
      generate_summary: z.enum(["auto", "concise", "detailed"]).nullish(),
    })
    .nullish(),
  include: z.array(z.enum(["reasoning.encrypted_content", "message.output_text.logprobs"])).nullish(),
  truncation: z.enum(["auto", "disabled"]).nullish(),
  metadata: metadata.nullish(),
  user: endUser.optional(),
  prompt_cache_key: endUser.nullish(),
  safety_identifier: endUser.nullish(),
  store: z.literal(false).nullish(),
  background: z.literal(false).nullish(),
  service_tier: z.enum(["auto", "default"]).nullish(),
  previous_response_id: z.null().optional(),
  conversation: z.null().optional(),
});

export type ResponsesRequest = z.infer<typeof responsesSchema>;

/** Known to OpenAI and not offered here: their own code, so that clients can tell. */
export const unsupportedFields: ReadonlySet<string> = new Set([
  "background",
  "context_management",
  "conversation",
  "include",
  "max_tool_calls",
  "modalities",
  "moderation",
  "previous_response_id",
  "prompt",
  "prompt_cache_options",
  "prompt_cache_retention",
  "service_tier",
  "store",
]);
