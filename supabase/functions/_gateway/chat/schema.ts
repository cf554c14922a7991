import { z } from "zod";
import { type RefusedFields, treatNullAsAbsent } from "../http/parse-body.ts";
import {
  answerSchemaFields,
  customToolFields,
  endUser,
  fileData,
  functionFields,
  functionName,
  imageDetail,
  imageUrl,
  metadata,
  modelName,
  namedTool,
  outputLimit,
  probability,
  reasoningEffort,
  refuseOtherMedia,
  temperature,
  verbosity,
} from "../requests/text-fields.ts";
import { hostedTool, toolChoiceAdvice } from "../tools/hosted-tools.ts";
import { serverToolName, toolLoopFields } from "../tools/tool-request.ts";

const maxChoices = 8;

// Passes unlisted members on to the provider, because clients send the provider's earlier messages back unchanged.
const textPart = z.looseObject({ type: z.literal("text"), text: z.string() });
const imagePart = z.looseObject({
  type: z.literal("image_url"),
  image_url: treatNullAsAbsent(z.looseObject({ url: imageUrl, detail: imageDetail.optional() })),
});
const audioPart = z.looseObject({
  type: z.literal("input_audio"),
  input_audio: z.looseObject({ data: z.base64(), format: z.enum(["wav", "mp3"]) }),
});
const refusalPart = z.looseObject({ type: z.literal("refusal"), refusal: z.string() });
const texts = z.union([z.string(), z.array(treatNullAsAbsent(textPart.superRefine(refuseOtherMedia))).min(1)]);
const filePart = z.looseObject({ type: z.literal("file"), file: treatNullAsAbsent(fileData) });
// A part of a tool's result. The Agents SDK sends images here (github.com/64bit/async-openai/issues/568).
const resultPart = treatNullAsAbsent(
  z.discriminatedUnion("type", [textPart, imagePart, filePart]).superRefine(refuseOtherMedia),
);
const userPart = treatNullAsAbsent(
  z.discriminatedUnion("type", [textPart, imagePart, audioPart, filePart]).superRefine(refuseOtherMedia),
);
// Mistral's reasoning: https://docs.mistral.ai/capabilities/reasoning
const thinkingPart = z.looseObject({
  type: z.literal("thinking"),
  thinking: z.union([z.string(), z.array(z.unknown())]),
});
const referencePart = z.looseObject({ type: z.literal("reference"), reference_ids: z.array(z.unknown()) });
const assistantPart = treatNullAsAbsent(
  z.discriminatedUnion("type", [textPart, refusalPart, thinkingPart, referencePart]).superRefine(refuseOtherMedia),
);

/**
 * Drops an empty list of tool calls, which OpenAI refuses. openai-java sends one after its accumulator has assembled a
 * streamed answer.
 */
function treatEmptyAsAbsent<Entry extends z.ZodType>(entry: Entry) {
  return z
    .array(entry)
    .transform((list) => (list.length > 0 ? list : undefined))
    .optional();
}

const toolCall = z.discriminatedUnion("type", [
  z.looseObject({
    id: z.string(),
    type: z.literal("function"),
    function: treatNullAsAbsent(z.looseObject({ name: z.string(), arguments: z.string() })),
  }),
  z.looseObject({
    id: z.string(),
    type: z.literal("custom"),
    custom: treatNullAsAbsent(z.looseObject({ name: z.string(), input: z.string() })),
  }),
]);
const name = z.string().optional();
const message = z.discriminatedUnion("role", [
  z.looseObject({ role: z.literal("system"), content: texts, name }),
  z.looseObject({ role: z.literal("developer"), content: texts, name }),
  z.looseObject({ role: z.literal("user"), content: z.union([z.string(), z.array(userPart).min(1)]), name }),
  z.looseObject({
    role: z.literal("assistant"),
    content: z.union([z.string(), z.array(assistantPart).min(1)]).nullish(),
    refusal: z.string().optional(),
    name,
    tool_calls: treatEmptyAsAbsent(treatNullAsAbsent(toolCall)),
    audio: z.never({ error: "Audio stored at the provider can't be used here. Send its transcript." }).optional(),
  }),
  z.looseObject({
    role: z.literal("tool"),
    content: z.union([z.string(), z.array(resultPart).min(1)]),
    tool_call_id: z.string(),
    name,
  }),
  z.looseObject({
    role: z.literal("function"),
    content: z.never({ error: "Send the result with the role tool and its tool_call_id." }),
  }),
]);

const functionTool = z.looseObject({
  type: z.literal("function"),
  function: treatNullAsAbsent(z.looseObject(functionFields)),
});
const customTool = z.looseObject({
  type: z.literal("custom"),
  custom: treatNullAsAbsent(z.looseObject(customToolFields)),
});
const chosenName = treatNullAsAbsent(z.strictObject({ name: functionName }));
const responseFormat = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text") }),
  z.looseObject({ type: z.literal("json_object") }),
  z.strictObject({ type: z.literal("json_schema"), json_schema: treatNullAsAbsent(z.looseObject(answerSchemaFields)) }),
]);
const penalty = z.number().min(-2).max(2);

/** The supported fields of OpenAI's chat completions. Other fields are passed on if the provider's kind lists them. */
export const chatSchema = z.object({
  model: modelName,
  messages: z.array(treatNullAsAbsent(message, "content")).min(1).max(10_000),
  stream: z.boolean().optional(),
  stream_options: treatNullAsAbsent(
    z.looseObject({ include_usage: z.boolean().optional(), include_obfuscation: z.boolean().optional() }),
  ).optional(),
  max_completion_tokens: outputLimit.optional(),
  max_tokens: outputLimit.optional(),
  n: z.number().int().min(1).max(maxChoices).optional(),
  temperature: temperature.optional(),
  top_p: probability.optional(),
  frequency_penalty: penalty.optional(),
  presence_penalty: penalty.optional(),
  logit_bias: treatNullAsAbsent(z.record(z.string().regex(/^\d+$/), z.number().min(-100).max(100))).optional(),
  logprobs: z.boolean().optional(),
  top_logprobs: z.number().int().min(0).max(20).optional(),
  seed: z.number().int().optional(),
  stop: z.union([z.string(), z.array(z.string()).max(4)]).optional(),
  reasoning_effort: reasoningEffort.optional(),
  verbosity: verbosity.optional(),
  // A string names a server tool.
  tools: z
    .array(
      z.union([
        treatNullAsAbsent(z.discriminatedUnion("type", [functionTool, customTool, hostedTool])),
        serverToolName,
      ]),
    )
    .max(128)
    .optional(),
  ...toolLoopFields,
  tool_choice: z
    .union([
      z.enum(["none", "auto", "required"]),
      treatNullAsAbsent(
        z.discriminatedUnion("type", [
          z.strictObject({ type: z.literal("function"), function: chosenName }),
          z.strictObject({ type: z.literal("custom"), custom: chosenName }),
          z.strictObject({
            type: z.literal("allowed_tools"),
            allowed_tools: z.strictObject({ mode: z.enum(["auto", "required"]), tools: z.array(namedTool).min(1) }),
          }),
        ]),
      ),
    ])
    .optional(),
  parallel_tool_calls: z.boolean().optional(),
  response_format: treatNullAsAbsent(responseFormat).optional(),
  metadata: treatNullAsAbsent(metadata).optional(),
  user: endUser.optional(),
  prompt_cache_key: endUser.optional(),
  safety_identifier: endUser.optional(),
  store: z.literal(false).optional(),
  service_tier: z
    .string()
    .regex(/^[a-z][a-z0-9_-]{0,31}$/)
    .optional(),
  modalities: z.tuple([z.literal("text")]).optional(),
});

export type ChatRequest = z.infer<typeof chatSchema>;

/** Request fields that the gateway refuses, with what to do instead. */
export const refusedMembers: RefusedFields = {
  background: "Leave it out: an answer is streamed or whole.",
  conversation: "Nothing is stored: send the conversation in messages.",
  function_call: "Send tool_choice.",
  functions: "Send tools.",
  modalities: 'Answers are text: leave it out, or send ["text"].',
  previous_response_id: "Nothing is stored: send the conversation in messages.",
  service_tier: "Leave it out, or name one with a price.",
  store: "Nothing is stored: leave it out, or send store: false.",
  "tool_choice.type": toolChoiceAdvice,
};
