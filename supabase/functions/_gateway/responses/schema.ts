import { z } from "zod";
import { isObject } from "../../_shared/json.ts";
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
  jsonObject,
  metadata,
  modelName,
  namedTool,
  outputLimit,
  probability,
  reasoningEffort,
  refuseOtherMedia,
  storedFile,
  temperature,
  verbosity,
} from "../requests/text-fields.ts";
import { hostedItem, hostedOrClientTool, toolChoiceAdvice } from "../tools/hosted-tools.ts";
import { serverToolName, toolLoopFields } from "../tools/tool-request.ts";

const itemState = {
  id: z.string().max(512).optional(),
  status: z.enum(["in_progress", "completed", "incomplete"]).optional(),
};
// Unlisted members pass to the provider, because clients return items as the provider sent them.
const part = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("input_text"), text: z.string() }),
  z.looseObject({
    type: z.literal("input_image"),
    file_id: storedFile,
    image_url: imageUrl,
    detail: imageDetail.optional(),
  }),
  z.looseObject({ type: z.literal("input_file"), ...fileData.shape }),
  z.looseObject({ type: z.literal("output_text"), text: z.string() }),
  z.looseObject({ type: z.literal("refusal"), refusal: z.string() }),
  // Part of messages between Codex's agents.
  z.looseObject({ type: z.literal("encrypted_content"), encrypted_content: z.string() }),
]);
const content = z.union([z.string(), z.array(treatNullAsAbsent(part.superRefine(refuseOtherMedia)))]);
const maxTools = 128;
const functionTool = z.looseObject({ type: z.literal("function"), ...functionFields });
const customTool = z.looseObject({ type: z.literal("custom"), ...customToolFields });
const namespaceTool = z.looseObject({
  type: z.literal("namespace"),
  name: functionName,
  description: z.string().optional(),
  tools: z
    .array(treatNullAsAbsent(z.discriminatedUnion("type", [functionTool, customTool])))
    .min(1)
    .max(maxTools),
});
const tool = treatNullAsAbsent(
  z.discriminatedUnion("type", [functionTool, customTool, namespaceTool, hostedOrClientTool]),
);

const reasoning = treatNullAsAbsent(
  z.looseObject({
    effort: reasoningEffort.optional(),
    // Excludes `pro`, which generates several answers although the reservation counts only one.
    mode: z.literal("standard").optional(),
    summary: z.enum(["auto", "concise", "detailed"]).optional(),
    generate_summary: z.enum(["auto", "concise", "detailed"]).optional(),
  }),
);
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
  z.looseObject({
    type: z.literal("function_call_output"),
    call_id: z.string().optional(),
    output: content,
    ...itemState,
  }),
  z.looseObject({
    type: z.literal("custom_tool_call"),
    call_id: z.string(),
    name: z.string(),
    input: z.string(),
    ...itemState,
  }),
  z.looseObject({ type: z.literal("custom_tool_call_output"), call_id: z.string(), output: content, ...itemState }),
  // Nothing is stored, so clients send the model's reasoning back in encrypted form.
  z.looseObject({
    type: z.literal("reasoning"),
    summary: z.array(summary),
    content: z.array(reasoningText).optional(),
    encrypted_content: z.string().optional(),
    ...itemState,
  }),
  // codex-rs/protocol/src/models.rs of github.com/openai/codex
  z.looseObject({ type: z.literal("agent_message"), content, id: itemState.id }),
  // Codex sends its tools as an item (codex-rs/protocol/src/models.rs of github.com/openai/codex).
  z.looseObject({
    type: z.literal("additional_tools"),
    role: z.literal("developer"),
    tools: z.array(tool).min(1).max(maxTools),
    id: itemState.id,
  }),
  // The client's search for tools that were not in the request, and the tools that it found.
  z.looseObject({
    type: z.literal("tool_search_call"),
    call_id: z.string().optional(),
    arguments: jsonObject,
    ...itemState,
  }),
  z.looseObject({
    type: z.literal("tool_search_output"),
    call_id: z.string().optional(),
    tools: z.array(tool).max(maxTools),
    ...itemState,
  }),
  // Requests a compaction instead of an answer. A compaction is a provider's summary of earlier items.
  z.looseObject({ type: z.literal("compaction_trigger"), id: itemState.id }),
  z.looseObject({ type: z.literal("compaction"), encrypted_content: z.string(), id: itemState.id }),
  z.strictObject({
    type: z.literal("configuration_update"),
    id: itemState.id,
    reasoning: reasoning.optional(),
    text: z.looseObject({ verbosity: verbosity.optional() }).optional(),
  }),
  z.strictObject({ type: z.literal("item_reference"), id: z.string().max(512) }),
  hostedItem,
]);

/** An input item. Clients may omit the type of messages and references, so it is added here. */
const inputItem = treatNullAsAbsent(
  z.preprocess((value) => {
    if (!isObject(value) || "type" in value) return value;
    return { type: "role" in value || !("id" in value) ? "message" : "item_reference", ...value };
  }, item),
);

const format = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text") }),
  z.strictObject({ type: z.literal("json_object") }),
  z.looseObject({ type: z.literal("json_schema"), ...answerSchemaFields }),
]);

/** The supported fields of an OpenAI Responses request. Other fields pass only if the provider's kind lists them. */
export const responsesSchema = z.object({
  model: modelName,
  input: z.union([z.string().min(1), z.array(inputItem).min(1)]),
  instructions: z.string().optional(),
  stream: z.boolean().optional(),
  stream_options: treatNullAsAbsent(z.strictObject({ include_obfuscation: z.boolean().optional() })).optional(),
  max_output_tokens: outputLimit.optional(),
  max_completion_tokens: outputLimit.optional(),
  max_tokens: outputLimit.optional(),
  temperature: temperature.optional(),
  top_p: probability.optional(),
  top_logprobs: z.number().int().min(0).max(20).optional(),
  // A string names a server tool.
  tools: z
    .array(z.union([tool, serverToolName]))
    .max(maxTools)
    .optional(),
  ...toolLoopFields,
  tool_choice: z
    .union([
      z.enum(["none", "auto", "required"]),
      treatNullAsAbsent(
        z.discriminatedUnion("type", [
          z.strictObject({ type: z.literal("function"), name: functionName }),
          z.strictObject({ type: z.literal("custom"), name: functionName }),
          z.strictObject({
            type: z.literal("allowed_tools"),
            mode: z.enum(["auto", "required"]),
            tools: z.array(namedTool).min(1),
          }),
        ]),
      ),
    ])
    .optional(),
  parallel_tool_calls: z.boolean().optional(),
  text: treatNullAsAbsent(
    z.looseObject({ format: treatNullAsAbsent(format).optional(), verbosity: verbosity.optional() }),
  ).optional(),
  reasoning: reasoning.optional(),
  include: z.array(z.string().max(128)).optional(),
  truncation: z.enum(["auto", "disabled"]).optional(),
  metadata: treatNullAsAbsent(metadata).optional(),
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

/** The supported values of `include`. Other values only concern hosted tools. */
export const includable: ReadonlySet<string> = new Set(["reasoning.encrypted_content", "message.output_text.logprobs"]);

/** What clients that rely on stored responses have to change. */
export const storedStateAdvice =
  "Nothing is stored: send store: false and the whole conversation in input (docs/clients.md#stored-conversations).";

/** Members that the endpoint refuses, each with advice on what to do instead. */
export const refusedMembers: RefusedFields = {
  background: "Leave it out: an answer is streamed or whole.",
  conversation: storedStateAdvice,
  modalities: "Answers are text: leave it out.",
  previous_response_id: storedStateAdvice,
  "reasoning.mode": "It makes several answers: raise effort instead.",
  service_tier: "Leave it out, or name one with a price.",
  store: storedStateAdvice,
  "tool_choice.type": toolChoiceAdvice,
};
