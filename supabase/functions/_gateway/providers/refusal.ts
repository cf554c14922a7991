import type { AttemptFailure } from "../../_shared/attempt.ts";
import { parseJsonOrUndefined } from "../../_shared/json.ts";
import type { ContextTokens, ErrorCode } from "../http/errors.ts";
import { readContextTokens } from "./context-tokens.ts";

/** The reason why a provider refused a request, and when to retry. */
export type Refusal = {
  failure: AttemptFailure;
  /** A more specific error code than the failure's own. */
  code?: ErrorCode;
  retryAfterSeconds?: number;
  /** Whether the content or size of the request may have caused the refusal. */
  mayBeRequest: boolean;
  /** True if only this provider's account refuses the request, so that another route may serve it. */
  retryable?: true;
  /** The tokens that don't fit into the context window, if the provider states them. */
  contextTokens?: ContextTokens;
};

/** A provider's error answer. */
export type ErrorAnswer = { status: number; text: string; header?: (name: string) => string | undefined };

/**
 * What identifies an error, in lower case. `codes` also contains the error's types, and `message` joins its messages.
 * `unquoted` ends each message where it begins to quote more than a name, because a quotation may be of the request.
 * `opening` ends each message at its first quotation or colon, after which even an unquoted text may be of the request.
 */
type Words = { codes: ReadonlySet<string>; message: string; unquoted: string; opening: string };
/** A rule without statuses applies to all. */
type Rule = { failure: AttemptFailure; statuses?: readonly number[]; codes: readonly string[]; message: RegExp };

/** The status if a provider reports an error only in the body of an answer or stream. */
const okStatus = 200;

/** A used-up balance, a spend limit, or billing that is not active. It may have any status, and waiting doesn't end it. */
const billingRule: Rule = {
  failure: "payment_required",
  codes: [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    "project_spend_limit_exceeded",
    "billing_error",
    "enforced_spend_limit_reached",
    "exceeded_current_quota_error",
    "billing_disabled",
    "blocked_api_access",
    "spend_limit_reached",
    "arrearage",
    "budget_exceeded",
    "1113",
  ],
  message: new RegExp(
    [
      /insufficient[ _](?:account )?(?:balance|credits?|funds|quota)|balance is insufficient|not[ _]enough[ _](?:balance|credits?|funds)/,
      /credit balance is (?:too low|exhausted)|(?:credits|balance) (?:are|is|have been|has been) (?:depleted|exhausted|used up)/,
      /(?:used|run out of) (?:all )?(?:available |your )*credits|doesn't have any credits|out of extra usage/,
      /(?:reach|exceed|cross|hit)(?:ed|es|s|ing)?\b[^.\n]{0,60}\b(?:api usage (?:limits?|threshold)|spend(?:ing)?[ -](?:limit|cap)|credit limit|included credits)/,
      /(?:spend(?:ing)?|credit|key|billing hard) (?:limit|cap) (?:has been |was |is )?(?:reached|exceeded)/,
      /requires billing to be enabled|enable billing on your project|billing (?:account )?(?:has been |is |was )?(?:disabled|not active|not enabled)|account is not active/,
      /inactive subscription|subscription (?:\S+ )?(?:has been|is) disabled|invalid_payment_instrument|account is in good standing/,
      /^budget has been exceeded/m,
    ]
      .map(({ source }) => source)
      .join("|"),
    "m",
  ),
};

/**
 * Errors that their status alone doesn't identify. The first matching rule applies. Codes and messages come from the
 * providers' documentation and from public reports, which refusal.test.ts cites.
 */
const rules: readonly Rule[] = [
  billingRule,
  {
    failure: "rate_limited",
    statuses: [okStatus, 413],
    codes: ["rate_limit_exceeded", "429", "resource_exhausted", "rate_limit_error", "throttlingexception"],
    message: /tokens per (?:minute|day)|too many tokens, please wait|^rate limit|too many requests/,
  },
  {
    failure: "context_length_exceeded",
    statuses: [okStatus, 400, 413, 422, 500, 503],
    codes: [
      "context_length_exceeded",
      "exceed_context_size_error",
      "model_context_window_exceeded",
      "model_max_prompt_tokens_exceeded",
      "1261",
    ],
    message:
      /context (?:length|limit|window|size)|prompt exceeds max length|(?:prompt|input) is too long|input token count|maximum prompt length|too large for model with|too many tokens(?!, please wait)|input tokens exceed|range of input length|exceeded model token limit|exceeds? token limit|maximum allowed input length|reduce the length of the (?:messages|prompt|input)|`inputs` tokens \+ `max_new_tokens`/,
  },
  {
    failure: "content_filter",
    statuses: [okStatus, 400, 403, 422, 451],
    codes: [
      "content_filter",
      "content_policy_violation",
      "cyber_policy",
      "responsibleaipolicyviolation",
      "invalid_prompt",
    ],
    message:
      /content exists risk|content[ _](?:management )?(?:filter|policy)|violates usage guidelines|(?:input|prompt) was flagged|considered high risk/,
  },
  {
    failure: "unauthorized",
    statuses: [okStatus, 400, 403],
    codes: ["invalid_api_key", "api_key_invalid", "incorrect_api_key"],
    message: /api key (?:not valid|not found|expired|is invalid|invalid)|(?:incorrect|invalid|expired) api key/,
  },
  { failure: "forbidden", statuses: [400], codes: [], message: /user location is not supported/ },
  {
    failure: "not_found",
    statuses: [okStatus, 400, 403, 422],
    codes: ["model_not_found", "deploymentnotfound", "invalid_model", "model_decommissioned"],
    message:
      /model (?:\S+ )?(?:not exist|not found|does not exist|has been decommissioned)|not a valid model|model identifier is invalid|unable to access (?:non-serverless )?model|invalid model/,
  },
  // The request refers to an item that OpenAI hasn't stored.
  { failure: "invalid_request", statuses: [404], codes: [], message: /items are not persisted/ },
];

/** Statuses of errors about the request. The texts of such errors may quote the request. */
const requestStatuses: ReadonlySet<number> = new Set([400, 413, 422]);
/** OpenAI's and Groq's message for a single request that exceeds the whole per-minute limit. */
const requestTooLarge = /request too large/;
/** OpenAI's and Groq's codes for a service tier without capacity. */
const tierCodes = ["resource_unavailable", "capacity_exceeded"];

/** The failure that a status alone indicates. Any other 4xx status means that the request caused the failure. */
const failuresByStatus: Readonly<Record<number, AttemptFailure>> = {
  200: "server_error",
  401: "unauthorized",
  402: "payment_required",
  403: "forbidden",
  404: "not_found",
  408: "timeout",
  409: "server_error",
  410: "not_found",
  424: "server_error",
  425: "server_error",
  429: "rate_limited",
  // Groq's status for a tier without capacity.
  498: "rate_limited",
  504: "timeout",
  // Cloudflare's statuses for an origin that did not answer in time.
  522: "timeout",
  524: "timeout",
};

/** Codes and messages for a model without free capacity. */
const overloadCodes = ["overloaded_error", "server_is_overloaded"];
const overloadMessage = /\boverloaded\b/;

/**
 * Matches a complaint about encrypted reasoning that another account or provider created: OpenAI's
 * `invalid_encrypted_content`, and the signatures of Anthropic and Google.
 */
const foreignReasoning: Rule = {
  failure: "invalid_request",
  codes: ["invalid_encrypted_content"],
  message:
    /encrypted[ _]content\b.*(?:could not be|cannot be|not be) (?:verified|decrypted|parsed)|could not decrypt|invalid `?(?:signature|data)`? in `?(?:redacted_)?thinking`? block|thought[ _]signature is not valid/,
};

/** Classifies a provider's refusal by its status, error text and headers. */
export function readRefusal({ status: sent, text, header = () => undefined }: ErrorAnswer): Refusal {
  const error = parseJsonOrUndefined(text);
  const words = readErrorWords(error, text);
  const status = sent === okStatus ? statedStatus(words) : sent;
  const rule = rules.find(
    (each) =>
      (!each.statuses || each.statuses.includes(status) || each.statuses.includes(sent)) &&
      matches(each, { ...words, message: chooseMatchedText(each, { status, words }) }),
  );
  const failure = rule?.failure ?? mapStatusToFailure(status);
  const waits = failure === "rate_limited" || failure === "server_error";
  const isTooLargeRequest = requestTooLarge.test(words.message) || tierCodes.some((code) => words.codes.has(code));
  const mayBeRequest = rule !== billingRule && (requestStatuses.has(status) || status === 498 || isTooLargeRequest);
  return {
    failure,
    code: chooseErrorCode(failure, { status, words }),
    mayBeRequest,
    retryAfterSeconds: waits ? readRetryAfterSeconds(header, text) : undefined,
    ...(failure === "invalid_request" && matches(foreignReasoning, { ...words, message: words.unquoted })
      ? { retryable: true }
      : {}),
    ...(failure === "context_length_exceeded" ? { contextTokens: readContextTokens(words.message, text) } : {}),
  };
}

/** Returns the words that a rule may match. An error about the request may repeat the request's own words. */
function chooseMatchedText(rule: Rule, { status, words }: { status: number; words: Words }): string {
  if (!requestStatuses.has(status)) return words.message;
  return rule === billingRule ? words.opening : words.unquoted;
}

function matches({ codes, message }: Rule, words: Pick<Words, "codes" | "message">): boolean {
  return codes.some((code) => words.codes.has(code)) || message.test(words.message);
}

function chooseErrorCode(
  failure: AttemptFailure,
  { status, words }: { status: number; words: Words },
): ErrorCode | undefined {
  if (failure === "invalid_request") return status === 413 ? "payload_too_large" : undefined;
  if (failure !== "server_error") return undefined;
  const isOverloaded =
    status === 529 || overloadCodes.some((code) => words.codes.has(code)) || overloadMessage.test(words.message);
  return isOverloaded ? "provider_overloaded" : undefined;
}

/**
 * Returns the error status that an answer with status 200 contains, as openrouter.ai/docs/api-reference/errors
 * documents.
 */
function statedStatus({ codes }: Words): number {
  return Number([...codes].find((code) => /^[45]\d\d$/.test(code)) ?? okStatus);
}

function mapStatusToFailure(status: number): AttemptFailure {
  if (status >= 300 && status < 400) return "invalid_answer";
  return failuresByStatus[status] ?? (status >= 500 ? "server_error" : "invalid_request");
}

const maxMessageLength = 4_096;
const codeMembers = ["code", "type", "status", "reason", "error_code"];
const messageMembers = ["message", "detail", "msg", "error", "error_msg", "raw"];
/** Members that may contain the error or further details of it. */
const innerMembers = ["error", "innererror", "details", "detail", "metadata", "response", "choices"];
const maxErrorDepth = 6;

function readErrorWords(error: unknown, text: string): Words {
  const codes = new Set<string>();
  const messages: string[] = [];
  function collect(value: unknown, depth: number): void {
    if (depth > maxErrorDepth || typeof value !== "object" || value === null) return;
    if (Array.isArray(value)) {
      for (const each of value) collect(each, depth + 1);
      return;
    }
    const members = value as Record<string, unknown>;
    for (const name of codeMembers) {
      const code = members[name];
      if (typeof code === "string" || typeof code === "number") codes.add(String(code).toLowerCase());
    }
    for (const name of messageMembers) {
      const message = members[name];
      if (typeof message !== "string") continue;
      const own = message.replace(errorNames, "");
      messages.push(own);
      // OpenRouter and LiteLLM pass on the provider's own error as text.
      if (own.startsWith("{")) collect(parseJsonOrUndefined(own), depth + 1);
    }
    for (const name of innerMembers) collect(members[name], depth + 1);
  }
  collect(error, 0);
  const all = messages.length > 0 ? messages : [text];
  const joined = (parts: readonly string[]) => parts.join("\n").slice(0, maxMessageLength).toLowerCase();
  const without = (rest: RegExp) => joined(all.map((each) => each.replace(rest, "")));
  return { codes, message: joined(all), unquoted: without(quotation), opening: without(afterOpening) };
}

/** Matches the names of errors before a message, such as LiteLLM's `litellm.BadRequestError: OpenAIException - `. */
const errorNames = /^(?:[\w.]{0,60}(?:Error|Exception)(?:: | - ))+/;
/** Matches a message from its first quotation of more than a name on. */
const quotation = /(?:^|[\s(:=[{])(?:“|(["'`])(?![\w./@-]{1,64}\1)).*$/s;
/** Matches a message from its first quotation or colon on. */
const afterOpening = /(?:(?:^|[\s(=[{])["'`“]|:).*$/s;

const maxRetrySeconds = 24 * 60 * 60;

/**
 * Returns when to retry, in whole seconds. Reads `retry-after-ms` (OpenAI), `retry-after` (RFC 9110, 10.2.3) and
 * Google's RetryInfo.
 */
function readRetryAfterSeconds(header: (name: string) => string | undefined, text: string): number | undefined {
  const ms = Number(header("retry-after-ms") || Number.NaN);
  const retryAfterText = header("retry-after") ?? "";
  const seconds = retryAfterText === "" ? Number.NaN : Number(retryAfterText);
  const date = (Date.parse(retryAfterText) - Date.now()) / 1_000;
  const [, delay] = /"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"/.exec(text) ?? [];
  const known = [ms / 1_000, seconds, date, Number(delay ?? Number.NaN)].find((each) => each > 0);
  return known === undefined || known > maxRetrySeconds ? undefined : Math.ceil(known);
}
