import { z } from "zod";
import { labelPattern } from "../_shared/labels.ts";
import { envelopeHeader } from "./envelopes/envelope-header.ts";
import type { ErrorCode } from "./http/errors.ts";

const label = z.string().regex(labelPattern);
const workspace = z.string().optional();
/** Headers that clients may send with every call. */
const labels = { "x-request-id": label.optional() };
export const readHeaders = z.object({ ...labels, "X-Platform-Workspace-Id": workspace });
export const callHeaders = readHeaders.extend({
  [envelopeHeader]: z.string().optional(),
  "idempotency-key": z.string().min(1).max(255).optional(),
  "X-Platform-Operation": label.optional(),
  "X-Platform-Entity-Id": label.optional(),
});
export const anthropicHeaders = {
  "anthropic-version": z.string().max(32).optional(),
  "anthropic-beta": z.string().max(2_048).optional(),
};
export const messagesHeaders = callHeaders.extend(anthropicHeaders);
export const appHeaders = z.object({ ...labels, "X-Platform-Workspace-Id": z.string() });

/** Headers of the answers to calls that an envelope holds. */
export const envelopeHeaders = {
  "x-platform-envelope-id": "The ID of the envelope that holds the call. Absent without one, like the next two.",
  "x-platform-envelope-remaining-usd": "What the envelope has left. Absent if the workspace hides costs.",
  "x-platform-envelope-remaining-calls": "The calls that it has left. Absent if their number is not limited.",
};

/** Headers of answers that are not JSON. */
export const platformHeaders = {
  ...envelopeHeaders,
  "x-platform-run-id": "The run's ID.",
  "x-platform-billed-credits": "Billed credits.",
  "x-platform-usage-source": "Where the token counts come from.",
};

/** Errors that admission, the idempotency key or a provider may cause. */
export const callErrors = [
  "invalid_json",
  "unsupported_parameter",
  "insufficient_credits",
  "budget_exceeded",
  "envelope_exhausted",
  "insufficient_scope",
  "app_not_allowed",
  "region_not_allowed",
  "model_not_found",
  "endpoint_not_served",
  "request_in_progress",
  "idempotency_key_used",
  "payload_too_large",
  "idempotency_key_reused",
  "rate_limit_exceeded",
  "context_length_exceeded",
  "content_filter",
  "provider_error",
  "provider_overloaded",
  "provider_timeout",
] as const satisfies ErrorCode[];
export const appErrors = [
  "workspace_header_required",
  "credential_not_bound",
  "insufficient_scope",
  "app_not_allowed",
] as const;
export const importErrors = [...appErrors, "invalid_json", "payload_too_large"] as const;
