import { z } from "zod";
import { nullIsAbsent } from "../http/parse-body.ts";
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
  refuseOtherMedia,
  temperature,
  verbosity,
} from "../text-fields.ts";
import { serverToolName, toolLoopFields } from "../tools/tool-request.ts";

const itemState = {
  id: z.string().max(512).optional(),
  status: z.enum(["in_progress", "completed", "incomplete"]).optional(),
};
// Members that are not listed pass to the provider: clients send items back as providers wrote them.
const part = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("input_text"), text: z.string() }),
  z.looseObject({
    type: z.literal("input_image"),
    image_url: imageUrl,
    detail: imageDetail.optional(),
  }),
  z.looseObject({ type: z.literal("output_text"), text: z.string() }),
  z.looseObject({ type: z.literal("refusal"), refusal: z.string() }),
]);
const content = z.union([z.string(), z.array(nullIsAbsent(part.superRefine(refuseOtherMedia))).min(1)]);
const summary = z.looseObject({ type: z.literal("summary_text"), text: z.string() });
const reasoningText = z.looseObject({ type: z.literal("reasoning_text"), text: z.string() });

const item = z.discriminatedUnion("type", [
  z.looseObject({
    type: z.literal("message"),
    role: z.enum(["user", "assistant", "system", "developer"]),
    content,
    phase: z.enum(["commentary", "final_answer"]).optional(),
    ...itemState,
  }),
  z.looseObject({
    type: z.literal("function_call"),
    call_id: z.string(),
    name: z.string(),
    arguments: z.string(),
    ...itemState,
  }),
  z.looseObject({ type: z.literal("function_call_output"), call_id: z.string(), output: content, ...itemState }),
  // Nothing is stored, so clients send the model's reasoning back, encrypted.
  z.looseObject({
    type: z.literal("reasoning"),
    summary: z.array(summary),
    content: z.array(reasoningText).optional(),
    encrypted_content: z.string().optional(),
    ...itemState,
  }),
]);

/** The type of a message may be left out. */
const inputItem = nullIsAbsent(
  z.preprocess((value) => {
    const message = typeof value === "object" && value !== null && "role" in value && !("type" in value);
    return message ? { type: "message", ...value } : value;
  }, item),
);

const functionTool = z.looseObject({
  type: z.literal("function"),
  name: functionName,
  description: z.string().optional(),
  parameters: z.record(z.string(), z.unknown()).optional(),
  strict: z.boolean().optional(),
});
const format = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text") }),
  z.strictObject({ type: z.literal("json_object") }),
  z.strictObject({
    type: z.literal("json_schema"),
    name: functionName,
    description: z.string().optional(),
    schema: jsonSchema,
    strict: z.boolean().optional(),
  }),
]);

/** The fields of OpenAI's responses that are offered. Any other top-level field is refused; nothing is stored. */
export const responsesSchema = z.strictObject({
  model: modelName,
  input: z.union([z.string().min(1), z.array(inputItem).min(1)]),
  instructions: z.string().optional(),
  stream: z.boolean().optional(),
  stream_options: nullIsAbsent(z.strictObject({ include_obfuscation: z.boolean().optional() })).optional(),
  max_output_tokens: outputLimit.optional(),
  max_completion_tokens: outputLimit.optional(),
  max_tokens: outputLimit.optional(),
  temperature: temperature.optional(),
  top_p: probability.optional(),
  top_logprobs: z.number().int().min(0).max(20).optional(),
  // A text names a server tool.
  tools: z
    .array(z.union([nullIsAbsent(functionTool), serverToolName]))
    .max(128)
    .optional(),
  ...toolLoopFields,
  tool_choice: z
    .union([
      z.enum(["none", "auto", "required"]),
      nullIsAbsent(z.strictObject({ type: z.literal("function"), name: functionName })),
    ])
    .optional(),
  parallel_tool_calls: z.boolean().optional(),
  text: nullIsAbsent(
    z.strictObject({ format: nullIsAbsent(format).optional(), verbosity: verbosity.optional() }),
  ).optional(),
  reasoning: nullIsAbsent(
    z.strictObject({
      effort: reasoningEffort.optional(),
      summary: z.enum(["auto", "concise", "detailed"]).optional(),
      generate_summary: z.enum(["auto", "concise", "detailed"]).optional(),
    }),
  ).optional(),
  include: z.array(z.enum(["reasoning.encrypted_content", "message.output_text.logprobs"])).optional(),
  truncation: z.enum(["auto", "disabled"]).optional(),
  metadata: nullIsAbsent(metadata).optional(),
  user: endUser.optional(),
  prompt_cache_key: endUser.optional(),
  safety_identifier: endUser.optional(),
  store: z.literal(false).optional(),
  background: z.literal(false).optional(),
  service_tier: z
    .string()
    .regex(/^[a-z][a-z0-9_-]{0,31}$/)
    .optional(),
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
