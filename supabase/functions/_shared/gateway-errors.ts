/** A code's status, OpenAI's error type, its sentence, and the sentences for causes that say more. */
export type ErrorEntry = readonly [
  status: number,
  type: string,
  message: string,
  specific?: Readonly<Record<string, string>>,
];

/**
 * The gateway's closed list of error codes, with status, OpenAI's error type, and message. More specific messages are
 * listed by the parameter that the database refuses, or by the failure of a provider (`AttemptFailure`).
 */
export const gatewayErrors = {
  invalid_request: [
    400,
    "invalid_request_error",
    "The request is invalid.",
    {
      "X-Platform-Entity-Id":
        "The key has an entity label of its own. Send no X-Platform-Entity-Id header, or one with that label.",
      voice: "The model does not have this voice. GET /v1/models lists the voices of each model.",
      invalid_request: "The model's provider refused this request as invalid.",
    },
  ],
  invalid_json: [400, "invalid_request_error", "The body is not valid JSON."],
  context_length_exceeded: [
    400,
    "invalid_request_error",
    "The request exceeds the model's context window. Shorten the input or lower the output limit.",
  ],
  content_filter: [400, "invalid_request_error", "The model's provider refused the content of this request."],
  unsupported_schema: [400, "invalid_request_error", "The JSON schema is not supported."],
  unsupported_parameter: [
    400,
    "invalid_request_error",
    "This parameter or value is not supported.",
    {
      messages:
        "This model takes no audio. Send text, or choose a model whose prices in GET /v1/models have audio_input_usd_per_million.",
      tools:
        "A provider of this model has no price for searches. Leave out the web search tool, or choose a model whose prices in GET /v1/models have request_fee_usd.",
      service_tier:
        "A provider of this model has no price for the service tier. Leave it out, or name a tier with a price.",
    },
  ],
  workspace_header_required: [400, "invalid_request_error", "The header X-Platform-Workspace-Id is required."],
  invalid_api_key: [401, "authentication_error", "The API key is missing, malformed, unknown, revoked or expired."],
  insufficient_credits: [
    402,
    "insufficient_quota",
    "The credit balance does not cover this request's maximum cost. Lower its output limit, or add credits.",
  ],
  budget_exceeded: [
    402,
    "insufficient_quota",
    "A budget does not cover this request's maximum cost. Lower its output limit, or raise the budget.",
  ],
  envelope_exhausted: [
    402,
    "insufficient_quota",
    "The envelope that holds this call has no room for it. Its owner can raise it in the workspace's AI studio.",
  ],
  insufficient_scope: [403, "permission_error", "This credential does not have the required scope."],
  app_not_allowed: [403, "permission_error", "The app of this credential is not allowed here."],
  workspace_mismatch: [403, "permission_error", "The workspace header does not match the credential."],
  credential_not_bound: [403, "permission_error", "This requires a credential that is bound to a registered app."],
  region_not_allowed: [
    403,
    "permission_error",
    "The workspace's AI policy does not allow the regions of this model's providers. GET /v1/models lists the models that it allows.",
  ],
  MFA_REQUIRED: [
    403,
    "permission_error",
    "This account needs its second step. Send the person to /mfa of the platform, then use the new access token.",
  ],
  model_not_found: [404, "invalid_request_error", "The model does not exist or is not available to this credential."],
  endpoint_not_served: [
    404,
    "invalid_request_error",
    "The model is not available at this endpoint. GET /v1/models lists the endpoints of each model.",
  ],
  envelope_not_found: [404, "invalid_request_error", "The envelope does not exist or belongs to another caller."],
  not_found: [
    404,
    "invalid_request_error",
    "The gateway does not serve this endpoint. GET /v1/models lists the endpoints of each model.",
  ],
  request_in_progress: [409, "invalid_request_error", "A request with this idempotency key is in progress."],
  idempotency_key_used: [
    409,
    "invalid_request_error",
    "A request with this idempotency key has already finished. Send a new request with a new key.",
  ],
  invoice_conflict: [
    409,
    "invalid_request_error",
    "This reference is already recorded with other values, or the invoice it replaces is already replaced.",
  ],
  cost_conflict: [
    409,
    "invalid_request_error",
    "A cost with the same observedAt is already recorded with other values.",
  ],
  payload_too_large: [
    413,
    "invalid_request_error",
    "The body is too large.",
    { invalid_request: "The model's provider refused this request as too large." },
  ],
  idempotency_key_reused: [422, "invalid_request_error", "This idempotency key was used with another request."],
  rate_limit_exceeded: [429, "rate_limit_error", "The rate limit is reached. Try again later."],
  internal_error: [500, "server_error", "The gateway had an error."],
  provider_error: [
    502,
    "server_error",
    "The model's provider failed.",
    { not_found: "The model's provider does not have this endpoint or model." },
  ],
  provider_overloaded: [502, "server_error", "The model's provider is overloaded. Try again later."],
  service_unavailable: [503, "server_error", "The gateway is temporarily unavailable. Try again."],
  AUTH_UNAVAILABLE: [503, "server_error", "The account's policy cannot be read. Try again."],
  provider_timeout: [504, "server_error", "The model's provider did not respond in time."],
} as const satisfies Record<string, ErrorEntry>;
