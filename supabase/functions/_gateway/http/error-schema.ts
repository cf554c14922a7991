import { z } from "zod";
import { refusalDetails } from "../../_shared/refusal-details.ts";
import { type ErrorCode, errorCodes } from "./errors.ts";

const members = z.object({
  message: z.string(),
  type: z.string(),
  /** The field, header or parameter that caused the error. */
  param: z.string().nullable(),
  code: z.enum(errorCodes as [ErrorCode, ...ErrorCode[]]),
  /** The address of the code in the documents. */
  doc_url: z.url().optional(),
  /** For `idempotency_key_used`: the run that used the key, and its usage. */
  run_id: z.uuid().optional(),
  usage_source: z.string().nullish(),
  usage: z.object({ input_tokens: z.number().int(), output_tokens: z.number().int() }).optional(),
  ...refusalDetails.omit({ message: true }).shape,
});

/** OpenAI's error object, with the members that the gateway sends. */
export const errorSchema = z.object({ error: members.extend({ request_id: z.string() }) });

/** Anthropic's error object, with the members that the gateway sends. */
export const messagesErrorSchema = z.object({ type: z.literal("error"), error: members, request_id: z.string() });
