import { formatExactDateTime } from "../../http/date-text.ts";
import { formatCount, formatMs } from "../../ui/format-amount.ts";
import { isCostUnknown } from "./pricing.ts";
import type { RunAttempt, RunSummary } from "./run-schema.ts";
import type { RunDetail } from "./runs.ts";

export const statusNames = {
  running: "Running",
  succeeded: "Succeeded",
  failed: "Failed",
  cancelled: "Canceled",
} as const satisfies Record<RunSummary["status"], string>;

const usageSourceTexts = {
  provider: "reported by the provider",
  provider_partial: "partly reported, the rest estimated or unknown",
  estimated_partial: "estimated: the call ended early",
  unavailable: "not available",
} as const;

const usageNoteTexts = {
  above_context_window:
    "The provider reported more tokens than the model’s context window, so only the window was counted.",
  above_output_limit: "The answer is longer than the output limit of the request.",
  implausible: "The provider reported more tokens than any request can use.",
  unattributed_cache_writes:
    "The request cached for five minutes and for an hour, and the provider didn’t say what it cached for an hour, so the five-minute price was charged.",
  unmeasured_document: "The usage is estimated, and the pages of a document couldn’t be counted.",
  unpriced_tier: "The provider served a service tier that has no price here, so the default prices were charged.",
} as const satisfies Record<RunSummary["marks"][number], string>;

/** Returns a run's facts with their labels. Omits unknown and hidden facts. */
export function runFacts({ run, provider }: RunDetail): [string, string][] {
  const hasTokens = !isCostUnknown(run) || run.inputTokens + run.outputTokens > 0;
  const facts: [string, string | number | false | null | undefined][] = [
    ["Status", run.errorCode ? `${statusNames[run.status]} (${run.errorCode})` : statusNames[run.status]],
    ["HTTP status", run.httpStatus],
    ["Started", formatExactDateTime(run.createdAt)],
    ["Ended", run.settledAt && formatExactDateTime(run.settledAt)],
    ["Model", run.model],
    ["Answered by", provider && `${provider.name}, ${provider.model} (route ${provider.route})`],
    ["Feature", run.feature],
    ["Entity label", run.entityId],
    ["Called with", describeCredential(run)],
    ["App", run.appId && (run.appName ?? `Deleted app ${run.appId}`)],
    [run.keyId ? "Key created by" : "Member", run.memberId && (run.memberName ?? "Deleted account")],
    ["Tokens in", hasTokens && `${formatCount(run.inputTokens)} (${formatCount(run.cachedInputTokens)} cached)`],
    ["Tokens out", hasTokens && `${formatCount(run.outputTokens)} (${formatCount(run.reasoningTokens)} reasoning)`],
    ["Notes", run.marks.map((mark) => usageNoteTexts[mark]).join(" ")],
    ["Usage", run.usageSource && capitalised(usageSourceTexts[run.usageSource])],
    ["Time to first byte", run.firstByteMs === null ? null : formatMs(run.firstByteMs)],
    ["Total time", run.latencyMs === null ? null : formatMs(run.latencyMs)],
    ["Request ID", run.requestId],
    ["Run ID", run.id],
  ];
  return facts.flatMap(([name, value]) => (value ? [[name, String(value)]] : []));
}

/** Returns the short name of a run's caller: its key, app or member. */
export function callerName(run: Pick<RunSummary, "credentialSource" | "keyName" | "appName" | "memberName">): string {
  if (run.credentialSource === "key") return run.keyName ?? "Deleted key";
  if (run.credentialSource === "app_token") return run.appName ?? "Deleted app";
  return run.memberName ?? "Deleted account";
}

/** Describes what a run was called with. */
export function describeCredential({
  credentialSource,
  keyId,
  keyName,
}: Pick<RunSummary, "credentialSource" | "keyId" | "keyName">): string {
  if (credentialSource === "key") return keyName === null ? `Deleted key ${keyId}` : `Key “${keyName}”`;
  return credentialSource === "app_token" ? "App token" : "Session of a signed-in member";
}

/** Returns the words with a capital first letter. */
export function capitalised(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

const failureTexts = {
  unreachable: "couldn’t connect",
  timeout: "timed out",
  connection_lost: "connection lost",
  unauthorized: "key rejected",
  payment_required: "payment required",
  forbidden: "access denied",
  not_found: "endpoint or model not found",
  rate_limited: "rate limit reached",
  server_error: "provider error",
  invalid_request: "request rejected as invalid",
  context_length_exceeded: "input too long for the model",
  content_filter: "blocked by the content filter",
  invalid_answer: "answer couldn’t be read",
  cancelled: "client disconnected",
  skipped: "skipped: in cooldown after failures, or no room in the provider’s limits",
} as const satisfies Record<NonNullable<RunAttempt["failure"]>, string>;

/** Describes the result of a request to a provider: "401 – key rejected". */
export function attemptResult({ status, failure }: Pick<RunAttempt, "status" | "failure">): string {
  const text = failure === null ? "answered" : failureTexts[failure];
  return status === null ? `${text.charAt(0).toUpperCase()}${text.slice(1)}` : `${status} – ${text}`;
}
