import { z } from "zod";
import type { RefusedFields } from "../http/parse-body.ts";
import { jsonObject, modelName } from "../requests/text-fields.ts";
import { messageSchema, systemSchema } from "./content.ts";
import { toolSchema } from "./tools.ts";

/** More than any of Anthropic's models can write. The catalogue has a lower limit for each model. */
const maxOutputTokens = 128_000;
const maxTools = 1_024;

/**
 * Accepts only edits that clear content. Other edits write summaries, whose tokens are not part of the stated usage
 * (`BetaUsage.iterations` of the SDK).
 */
const contextEdit = z.looseObject({ type: z.string().regex(/^clear_/, "Only edits that clear content are offered.") });

/** Members shared by requests for a message and requests to count its tokens. */
const prompt = {
  model: modelName,
  messages: z.array(messageSchema).min(1),
  system: systemSchema.optional(),
  tools: z.array(toolSchema).max(maxTools).optional(),
  tool_choice: z.looseObject({ type: z.string() }).optional(),
  thinking: z.looseObject({ type: z.string(), budget_tokens: z.number().int().min(1).optional() }).optional(),
  cache_control: jsonObject.optional(),
  output_config: jsonObject.optional(),
  output_format: jsonObject.optional(),
  context_management: z.looseObject({ edits: z.array(contextEdit).nullish() }).optional(),
  speed: z.literal("standard").optional(),
  platform: z.strictObject({}).optional(),
};

/**
 * The supported fields of Anthropic's Messages API: `MessageCreateParamsBase` of
 * github.com/anthropics/anthropic-sdk-typescript, src/resources/messages/messages.ts and src/resources/beta/messages.
 */
export const messagesSchema = z.object({
  ...prompt,
  /** 0 writes the prompt to the cache without generating output. */
  max_tokens: z.number().int().min(0).max(maxOutputTokens),
  stream: z.boolean().optional(),
  stop_sequences: z.array(z.string()).max(8_191).optional(),
  temperature: z.number().min(0).max(1).optional(),
  top_k: z.number().int().min(0).optional(),
  top_p: z.number().min(0).max(1).optional(),
  metadata: z.looseObject({ user_id: z.string().max(512).nullish() }).optional(),
  inference_geo: z.literal("global").optional(),
  service_tier: z.enum(["auto", "standard_only"]).optional(),
});

export const countTokensSchema = z.object(prompt);

export type MessagesRequest = z.infer<typeof messagesSchema>;
export type CountTokensRequest = z.infer<typeof countTokensSchema>;

/**
 * Members that are refused because their costs have no price, or because they keep state at the provider or refer to
 * such state.
 */
export const refusedMembers: RefusedFields = {
  container: "It keeps files at the provider: leave it out.",
  context_management: "Leave out edits that compact the conversation: what they cost is not counted.",
  fallback_credit_token: "Leave it out: the gateway asks the model's other routes itself.",
  fallbacks: "Leave it out: the gateway asks the model's other routes itself.",
  inference_geo: "It has no price here: leave it out.",
  mcp_servers: "The provider would call these servers: run the tools in your client.",
  service_tier: "Leave it out, or send auto or standard_only.",
  speed: "It has no price here: leave it out.",
  user_profile_id: "Profiles are kept at the provider: leave it out.",
  workspace_id: "The provider's workspace is the operator's choice: leave it out.",
};
