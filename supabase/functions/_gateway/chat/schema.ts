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

const maxChoices = 8;

const textPart = z.strictObject({ type: z.literal("text"), text: z.string() });
const imagePart = z.strictObject({
  type: z.literal("image_url"),
  image_url: z.strictObject({
    url: imageUrl,
    detail: imageDetail.optional(),
  }),
});
const audioPart = z.strictObject({
  type: z.literal("input_audio"),
  input_audio: z.strictObject({ data: z.base64(), format: z.enum(["wav", "mp3"]) }),
});
const refusalPart = z.strictObject({ type: z.literal("refusal"), refusal: z.string() });
const texts = z.union([z.string(), z.array(textPart).min(1)]);

const toolCall = z.strictObject({
  id: z.string(),
  type: z.literal("function"),
  function: z.strictObject({ name: z.string(), arguments: z.string() }),
});
const message = z.discriminatedUnion("role", [
  z.strictObject({ role: z.literal("system"), content: texts, name: z.string().optional() }),
  z.strictObject({ role: z.literal("developer"), content: texts, name: z.string().optional() }),
  z.strictObject({
    role: z.literal("user"),
    content: z.union([z.string(), z.array(z.discriminatedUnion("type", [textPart, imagePart, audioPart])).min(1)]),
    name: z.string().optional(),
  }),
  z.strictObject({
    role: z.literal("assistant"),
    content: z.union([z.string(), z.array(z.discriminatedUnion("type", [textPart, refusalPart])).min(1)]).nullish(),
    refusal: z.string().nullish(),
    name: z.string().optional(),
    tool_calls: z.array(toolCall).min(1).optional(),
    // Answers have them; clients send answers back as they came.
    annotations: z.array(z.unknown()).optional(),
    audio: z.null().optional(),
    function_call: z.null().optional(),
  }),
  z.strictObject({ role: z.literal("tool"), content: texts, tool_call_id: z.string() }),
]);

const functionTool = z.strictObject({
  type: z.literal("function"),
  function: z.strictObject({
    name: functionName,
    description: z.string().optional(),
    parameters: z.record(z.string(), z.unknown()).optional(),
    strict: z.boolean().nullish(),
  }),
});
const responseFormat = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text") }),
  z.strictObject({ type: z.literal("json_object") }),
  z.strictObject({
    type: z.literal("json_schema"),
    json_schema: z.strictObject({
      name: functionName,
      description: z.string().optional(),
      schema: jsonSchema,
      strict: z.boolean().nullish(),
    }),
  }),
]);
const penalty = z.number().min(-2).max(2);

/** The fields of OpenAI's chat completions that pass. Whatever stands in no list here is refused. */
export const chatSchema = z.strictObject({
  model: modelName,
  messages: z.array(message).min(1).max(10_000),
  stream: z.boolean().nullish(),
  stream_options: z
    .strictObject({ include_usage: z.boolean().optional(), include_obfuscation: z.boolean().optional() })
    .nullish(),
  max_completion_tokens: outputLimit.nullish(),
  max_tokens: outputLimit.nullish(),
  n: z.number().int().min(1).max(maxChoices).nullish(),
  temperature: temperature.nullish(),
  top_p: probability.nullish(),
  frequency_penalty: penalty.nullish(),
  presence_penalty: penalty.nullish(),
  logit_bias: z.record(z.string().regex(/^\d+$/), z.number().min(-100).max(100)).nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.number().int().min(0).max(20).nullish(),
  seed: z.number().int().nullish(),
  stop: z.union([z.string(), z.array(z.string()).max(4)]).nullish(),
  reasoning_effort: reasoningEffort.nullish(),
  verbosity: verbosity.nullish(),
  // A text names a server tool.
  tools: z
    .array(z.union([functionTool, serverToolName]))
    .min(1)
    .max(128)
    .optional(),
  ...toolLoopFields,
  tool_choice: z
    .union([
      z.enum(["none", "auto", "required"]),
      z.strictObject({ type: z.literal("function"), function: z.strictObject({ name: functionName }) }),
    ])
    .optional(),
  parallel_tool_calls: z.boolean().optional(),
  response_format: responseFormat.optional(),
  metadata: metadata.nullish(),
  user: endUser.optional(),
  prompt_cache_key: endUser.nullish(),
  safety_identifier: endUser.nullish(),
  store: z.literal(false).nullish(),
  service_tier: z.enum(["auto", "default"]).nullish(),
  modalities: z.tuple([z.literal("text")]).nullish(),
});

export type ChatRequest = z.infer<typeof chatSchema>;

/** Known to OpenAI and not offered here: their own code, so that clients can tell. */
export const unsupportedFields: ReadonlySet<string> = new Set([
  "audio",
  "background",
  "conversation",
  "function_call",
  "functions",
  "moderation",
  "modalities",
  "prediction",
  "previous_response_id",
  "prompt_cache_options",
  "prompt_cache_retention",
  "service_tier",
  "store",
  "web_search_options",
]);
