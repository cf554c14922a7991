/** Where an error's action leads: a page of the workspace, or the error's entry in the documentation. */
type Target = "api-keys" | "budgets" | "credits" | "envelopes" | "members" | "playground" | "policy" | "errors";

interface ErrorHelp {
  /** What happened, for a run with this error. */
  sentence: string;
  action: string;
  target: Target;
  /** Replaces the fields for a call that was refused before a run began. */
  refused?: Partial<Pick<ErrorHelp, "sentence" | "action" | "target">>;
}

/** Who reads the advice, and where. */
export interface AdviceReader {
  /** The path of the workspace's pages. */
  workspacePath: string;
  /** Whether the reader may open the page of API keys. */
  canManageKeys: boolean;
}

const readMore = { action: "How to correct the request", target: "errors" } as const;
const tryAgain = { action: "Try again in the playground", target: "playground" } as const;
const tryOther = { action: "Try another model in the playground", target: "playground" } as const;

/** One sentence and one action for each error code of a run or refused call. */
const errorHelp: Readonly<Record<string, ErrorHelp>> = {
  invalid_request: {
    sentence: "The provider refused the request as invalid.",
    ...readMore,
    refused: { sentence: "A field of the request is missing or wrong." },
  },
  invalid_json: { sentence: "The body isn’t valid JSON.", ...readMore },
  context_length_exceeded: {
    sentence: "The input and the output limit exceed the model’s context window.",
    action: "Try a model with a larger context window",
    target: "playground",
  },
  content_filter: {
    sentence: "The provider refused the content of the request.",
    action: "Try other content in the playground",
    target: "playground",
  },
  unsupported_schema: { sentence: "The strict JSON schema uses something that isn’t supported.", ...readMore },
  unsupported_parameter: { sentence: "A parameter or its value isn’t supported.", ...readMore },
  workspace_header_required: { sentence: "The request names no workspace.", ...readMore },
  invalid_api_key: {
    sentence: "The API key is unknown, revoked or expired.",
    action: "Open API keys",
    target: "api-keys",
  },
  insufficient_credits: {
    sentence: "The credit balance doesn’t cover what this request may cost.",
    action: "See the balance",
    target: "credits",
  },
  budget_exceeded: {
    sentence: "A budget doesn’t cover what this request may cost.",
    action: "Open budgets",
    target: "budgets",
  },
  envelope_exhausted: {
    sentence: "The task’s limit was used up, or the task was stopped, while the run was in progress.",
    action: "Open task limits",
    target: "envelopes",
    refused: { sentence: "The call doesn’t fit its task limit, or the task has ended." },
  },
  insufficient_scope: {
    sentence: "The credential may not make this request.",
    action: "Which scope, permission or address is missing",
    target: "errors",
  },
  app_not_allowed: { sentence: "The app may not call the gateway for this workspace.", ...readMore },
  workspace_mismatch: { sentence: "The workspace header doesn’t match the credential.", ...readMore },
  credential_not_bound: { sentence: "This call needs a credential of a registered app.", ...readMore },
  region_not_allowed: {
    sentence: "The AI policy doesn’t allow the regions of this model’s providers.",
    action: "Open the AI policy",
    target: "policy",
  },
  MFA_REQUIRED: {
    sentence: "The person must complete the second step of signing in.",
    action: "See who uses a second factor",
    target: "members",
  },
  model_not_found: {
    sentence: "The model doesn’t exist, or this credential may not use it.",
    action: "See the models that you can use",
    target: "playground",
  },
  endpoint_not_served: {
    sentence: "The model isn’t available at this endpoint.",
    action: "See the models of each endpoint",
    target: "playground",
  },
  envelope_not_found: {
    sentence: "The task limit (envelope) doesn’t exist, or belongs to another caller.",
    ...readMore,
  },
  not_found: { sentence: "The gateway has no such endpoint.", ...readMore },
  request_in_progress: { sentence: "A request with this idempotency key was still running.", ...readMore },
  idempotency_key_used: { sentence: "A request with this idempotency key has already finished.", ...readMore },
  invoice_conflict: { sentence: "The invoice is already recorded with other values.", ...readMore },
  cost_conflict: { sentence: "The cost is already recorded with other values.", ...readMore },
  payload_too_large: {
    sentence: "The provider refused the request as too large.",
    ...readMore,
    refused: { sentence: "The request’s body is too large." },
  },
  idempotency_key_reused: { sentence: "The idempotency key was used with another request.", ...readMore },
  rate_limit_exceeded: {
    sentence: "The model’s provider was at its rate limit.",
    ...tryOther,
    refused: {
      sentence: "A rate limit of the key, the workspace or the plan was reached.",
      action: "See the limits of the key",
      target: "api-keys",
    },
  },
  internal_error: { sentence: "The gateway had an error. Report the request ID to support.", ...tryAgain },
  provider_error: { sentence: "The model’s provider failed on every route.", ...tryOther },
  provider_overloaded: { sentence: "The model’s provider was overloaded on every route.", ...tryOther },
  service_unavailable: { sentence: "The gateway was temporarily unavailable.", ...tryAgain },
  AUTH_UNAVAILABLE: { sentence: "The policy of the person’s account couldn’t be read.", ...tryAgain },
  provider_timeout: { sentence: "The model’s provider didn’t answer in time.", ...tryOther },
  abandoned: {
    sentence: "The gateway stopped before the run ended, so the run was closed with its last counts.",
    ...tryAgain,
  },
};

/** The codes that have help of their own. */
export const errorCodesWithHelp = Object.keys(errorHelp);

/** One sentence that says what happened, and one action with its address. */
export interface ErrorAdvice {
  sentence: string;
  action: { label: string; href: string };
}

/**
 * Returns what to say and do about an error.
 * @param options.refused whether the call was refused before a run began
 */
export function adviseOnError(
  code: string,
  { workspacePath, canManageKeys, refused = false }: AdviceReader & { refused?: boolean },
): ErrorAdvice {
  const help = Object.hasOwn(errorHelp, code) ? errorHelp[code] : undefined;
  const { sentence, action, target } = {
    sentence: "The request failed.",
    ...readMore,
    ...help,
    ...(refused ? help?.refused : {}),
  };
  if (target === "api-keys" && !canManageKeys) {
    return { sentence, action: { label: "What a person who manages the keys can do", href: errorPath(code) } };
  }
  return { sentence, action: { label: action, href: hrefOf(target, { code, workspacePath }) } };
}

function hrefOf(target: Target, { code, workspacePath }: { code: string; workspacePath: string }): string {
  if (target === "errors") return errorPath(code);
  if (target === "members") return `${workspacePath}/members`;
  return `${workspacePath}/ai/${target === "api-keys" ? "keys" : target}`;
}

/** Returns the path of an error's entry in the documentation. */
export function errorPath(code: string): string {
  return `/docs/errors#${code}`;
}
