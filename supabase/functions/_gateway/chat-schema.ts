import { z } from "zod";

/** Limits of spec.md and api.md, Text. */
export const outputLimits = { default: 2_048, max: 32_768 } as const;
const maxChoices = 8;
const maxSchemaCharacters = 100_000;

const name = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/);
const textPart = z.strictObject({ type: z.literal("text"), text: z.string() });
const imagePart = z.strictObject({
  type: z.literal("image_url"),
  image_url: z.strictObject({
    url: z.string().regex(/^(https:\/\/|data:image\/)/, "must be an https or data URL of an image"),
    detail: z.enum(["auto", "low", "high"]).optional(),
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
    name,
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
      name,
      description: z.string().optional(),
      schema: z
        .record(z.string(), z.unknown())
        .refine((schema) => JSON.stringify(schema).length <= maxSchemaCharacters, {
          message: `may have ${maxSchemaCharacters} characters at most`,
        }),
      strict: z.boolean().nullish(),
    }),
  }),
]);
const outputLimit = z.number().int().min(1).max(outputLimits.max);
const probability = z.number().min(0).max(1);
const penalty = z.number().min(-2).max(2);

/** The fields of OpenAI's chat completions that pass. Whatever stands in no list here is refused. */
export const chatSchema = z.strictObject({
  model: z.string().min(1).max(128),
  messages: z.array(message).min(1).max(10_000),
  stream: z.boolean().nullish(),
  stream_options: z.strictObject({ include_usage: z.boolean().optional() }).nullish(),
  max_completion_tokens: outputLimit.nullish(),
  max_tokens: outputLimit.nullish(),
  n: z.number().int().min(1).max(maxChoices).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: probability.nullish(),
  frequency_penalty: penalty.nullish(),
  presence_penalty: penalty.nullish(),
  logit_bias: z.record(z.string().regex(/^\d+$/), z.number().min(-100).max(100)).nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.number().int().min(0).max(20).nullish(),
  seed: z.number().int().nullish(),
  stop: z.union([z.string(), z.array(z.string()).max(4)]).nullish(),
  reasoning_effort: z.enum(["none", "minimal", "low", "medium", "high", "xhigh"]).nullish(),
  verbosity: z.enum(["low", "medium", "high"]).nullish(),
  tools: z.array(functionTool).min(1).max(128).optional(),
  tool_choice: z
    .union([
      z.enum(["none", "auto", "required"]),
      z.strictObject({ type: z.literal("function"), function: z.strictObject({ name }) }),
    ])
    .optional(),
  parallel_tool_calls: z.boolean().optional(),
  response_format: responseFormat.optional(),
  metadata: z.record(z.string().max(64), z.string().max(512)).nullish(),
  user: z.string().max(512).optional(),
  prompt_cache_key: z.string().max(512).optional(),
  safety_identifier: z.string().max(512).optional(),
  store: z.literal(false).nullish(),
  service_tier: z.enum(["auto", "default"]).nullish(),
  modalities: z.tuple([z.literal("text")]).nullish(),
});

export type ChatRequest = z.infer<typeof chatSchema>;

/** Known to OpenAI and not offered here (api.md, Text): their own code, so that clients can tell. */
export const unsupportedFields: ReadonlySet<string> = new Set([
  "audio",
  "background",
  "conversation",
  "function_call",
  "functions",
  "max_steps",
  "moderation",
  "modalities",
  "platform",
  "prediction",
  "previous_response_id",
  "prompt_cache_options",
  "prompt_cache_retention",
  "service_tier",
  "store",
  "web_search_options",
]);
