import type { AttemptFailure } from "../../_shared/attempt.ts";

/** The reason why a provider refused a request, and when to retry. */
export type Refusal = {
  failure: AttemptFailure;
  retryAfterSeconds?: number;
  /** Whether the content or size of the request may have caused the refusal. */
  mayBeRequest: boolean;
};

/** A provider's error answer. */
export type RefusedAnswer = { status: number; text: string; header?: (name: string) => string | undefined };

/**
 * What identifies an error, in lower case. `codes` also contains the error's types, and `message` joins its messages.
 */
type Words = { codes: ReadonlySet<string>; message: string };
type Rule = { failure: AttemptFailure; statuses: readonly number[]; codes: readonly string[]; message: RegExp };

/** The status if a provider reports an error only in the body of an answer or stream. */
const ok = 200;

/**
 * Errors that their status alone doesn't identify. The first matching rule applies. Codes and messages come from the
 * providers' documentation and from public reports, which refusal.test.ts cites.
 */
const rules: readonly Rule[] = [
  {
    failure: "payment_required",
    statuses: [ok, 400, 403, 429],
    codes: ["insufficient_quota", "billing_hard_limit_reached", "exceeded_current_quota_error", "billing_error"],
    message:
      /insufficient (?:account )?(?:balance|credits?|funds|quota)|credit balance is too low|(?:used|run out of) (?:all )?(?:available |your )*credits/,
  },
  {
    failure: "rate_limited",
    statuses: [ok, 413],
    codes: ["rate_limit_exceeded"],
    message: /tokens per (?:minute|day)/,
  },
  {
    failure: "context_length_exceeded",
    statuses: [ok, 400, 413, 422, 500, 503],
    codes: ["context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded"],
    message:
      /context (?:length|window|size)|(?:prompt|input) is too long|input token count|maximum prompt length|too large for model with|too many tokens|exceeded model token limit|exceeds? token limit|maximum allowed input length|reduce the length of the (?:messages|prompt|input)|`inputs` tokens \+ `max_new_tokens`/,
  },
  {
    failure: "content_filter",
    statuses: [ok, 400, 403, 422, 451],
    codes: ["content_filter", "content_policy_violation", "responsibleaipolicyviolation", "invalid_prompt"],
    message:
      /content exists risk|content[ _](?:management )?(?:filter|policy)|violates usage guidelines|(?:input|prompt) was flagged|considered high risk/,
  },
  {
    failure: "unauthorized",
    statuses: [ok, 400, 403],
    codes: ["invalid_api_key", "api_key_invalid", "incorrect_api_key"],
    message: /api key (?:not valid|not found|expired|is invalid|invalid)|(?:incorrect|invalid|expired) api key/,
  },
  { failure: "forbidden", statuses: [400], codes: [], message: /user location is not supported/ },
  {
    failure: "not_found",
    statuses: [ok, 400, 403, 422],
    codes: ["model_not_found", "deploymentnotfound", "invalid_model", "model_decommissioned"],
    message:
      /model (?:\S+ )?(?:not exist|not found|does not exist|has been decommissioned)|not a valid model|model identifier is invalid|unable to access (?:non-serverless )?model|invalid model/,
  },
  // The request refers to an item that OpenAI hasn't stored.
  { failure: "invalid_request", statuses: [404], codes: [], message: /items are not persisted/ },
  {
    failure: "rate_limited",
    statuses: [ok],
    codes: ["429", "resource_exhausted", "rate_limit_error"],
    message: /^rate limit|too many requests/,
  },
];

/** Statuses of errors about the request. The texts of such errors may quote the request. */
const requestStatuses: ReadonlySet<number> = new Set([400, 413, 422]);
/** OpenAI's and Groq's message for a single request that exceeds the whole per-minute limit. */
const requestTooLarge = /request too large/;
/** OpenAI's and Groq's codes for a service tier without capacity. */
const tierCodes = ["resource_unavailable", "capacity_exceeded"];

/** The failure that a status alone indicates. Any other 4xx status means that the request caused the failure. */
const byStatus: Readonly<Record<number, AttemptFailure>> = {
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

/** Classifies a provider's refusal by its status, error text and headers. */
export function readRefusal({ status: sent, text, header = () => undefined }: RefusedAnswer): Refusal {
  const error = parseError(text);
  const words = wordsOf(error, text);
  const status = sent === ok ? statedStatus(words) : sent;
  const rule = rules.find(
    ({ statuses, codes, message }) =>
      (statuses.includes(status) || statuses.includes(sent)) &&
      (codes.some((code) => words.codes.has(code)) || message.test(words.message)),
  );
  const failure = rule?.failure ?? failureOf(status);
  const waits = failure === "rate_limited" || failure === "server_error";
  const asksTooMuch = requestTooLarge.test(words.message) || tierCodes.some((code) => words.codes.has(code));
  const mayBeRequest = requestStatuses.has(status) || status === 498 || asksTooMuch;
  return { failure, mayBeRequest, retryAfterSeconds: waits ? retryAfter(header, text) : undefined };
}

/**
 * Returns the error status that an answer with status 200 contains, as openrouter.ai/docs/api-reference/errors
 * documents.
 */
function statedStatus({ codes }: Words): number {
  return Number([...codes].find((code) => /^[45]\d\d$/.test(code)) ?? ok);
}

function failureOf(status: number): AttemptFailure {
  if (status >= 300 && status < 400) return "invalid_answer";
  return byStatus[status] ?? (status >= 500 ? "server_error" : "invalid_request");
}

const longestMessage = 4_096;
const codeMembers = ["code", "type", "status", "reason", "error_code"];
const messageMembers = ["message", "detail", "msg", "error", "error_msg", "raw"];
/** Members that may contain the error or further details of it. */
const innerMembers = ["error", "innererror", "details", "detail", "metadata", "response"];
const deepest = 6;

function parseError(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function wordsOf(error: unknown, text: string): Words {
  const codes = new Set<string>();
  const messages: string[] = [];
  function collect(value: unknown, depth: number): void {
    if (depth > deepest || typeof value !== "object" || value === null) return;
    if (Array.isArray(value)) {
      for (const each of value) collect(each, depth + 1);
      return;
    }
    const members = value as Record<string, unknown>;
    for (const name of codeMembers) {
      const code = members[name];
      if (typeof code === "string" || typeof code === "number") codes.add(String(code).toLowerCase());
    }
    for (const name of messageMembers) if (typeof members[name] === "string") messages.push(members[name]);
    for (const name of innerMembers) collect(members[name], depth + 1);
  }
  collect(error, 0);
  const message = messages.length > 0 ? messages.join("\n") : text;
  return { codes, message: message.slice(0, longestMessage).toLowerCase() };
}

const longestRetrySeconds = 24 * 60 * 60;

/**
 * Returns when to retry, in whole seconds. Reads `retry-after-ms` (OpenAI), `retry-after` (RFC 9110, 10.2.3) and
 * Google's RetryInfo.
 */
function retryAfter(header: (name: string) => string | undefined, text: string): number | undefined {
  const ms = Number(header("retry-after-ms") || Number.NaN);
  const said = header("retry-after") ?? "";
  const seconds = said === "" ? Number.NaN : Number(said);
  const date = (Date.parse(said) - Date.now()) / 1_000;
  const [, delay] = /"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"/.exec(text) ?? [];
  const known = [ms / 1_000, seconds, date, Number(delay ?? Number.NaN)].find((each) => each > 0);
  return known === undefined || known > longestRetrySeconds ? undefined : Math.ceil(known);
}
