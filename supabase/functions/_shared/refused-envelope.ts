import type { LimitOf, RefusalDetails } from "./refusal-details.ts";
import { count, exact, inProgress, lessAndMore, moment } from "./refusal-words.ts";
import { readUsdAmount } from "./usd-amount.ts";

type Envelope = LimitOf<"envelope">;

/**
 * Returns the sentences for a call that its envelope refuses: what was used, and where its owner raises it.
 * @param call.subject what the message calls the refused call
 * @param call.fit the sentence about an output limit with which the call fits
 */
export function describeEnvelope(
  envelope: Envelope,
  call: { need_usd: number | undefined; subject: string; fit: string | undefined },
): string {
  const owner = envelope.label ? `The task “${envelope.label}”` : "This task";
  const { state, ends_at, url } = envelope;
  const page = url ?? "Its task limit in the workspace's AI studio";
  if (state === "ended") {
    return `${owner} was stopped by its owner, so its calls are refused and ended. ${page} shows what it used.`;
  }
  if (state === "expired") {
    const time = ends_at === undefined ? "" : ` at ${moment(ends_at, "UTC")}`;
    return `${owner} expired${time}. ${page} shows what it used.`;
  }
  const cure = url
    ? `Raise the limit at ${url}, then send the request again.`
    : "Raise the limit under Task limits in the workspace's AI studio, then send the request again.";
  const fit = call.fit === undefined ? "" : ` ${call.fit}`;
  return `${describeUse(envelope, { owner, ...call })}${fit} ${cure}`;
}

function describeUse(
  { limit_usd, spent_usd, reserved_usd, remaining_usd, max_calls, remaining_calls }: Envelope,
  { owner, need_usd, subject }: { owner: string; need_usd: number | undefined; subject: string },
): string {
  if (max_calls != null && remaining_calls != null && remaining_calls <= 0) {
    return `${owner} has used its limit of ${count(max_calls)} ${max_calls === 1 ? "call" : "calls"}.`;
  }
  if (limit_usd === undefined || spent_usd === undefined || remaining_usd === undefined) {
    return `${owner} has too little left for the maximum cost of ${subject}.`;
  }
  const used = `${owner} has used $${exact(spent_usd)} of its limit of $${exact(limit_usd)}`;
  if (remaining_usd <= 0 || need_usd === undefined) return `${used}${inProgress(reserved_usd, "$")}.`;
  const [left, cost] = lessAndMore(remaining_usd, need_usd);
  return `${used}${inProgress(reserved_usd, "$")}; $${left} is left, and ${subject} may cost up to $${cost}.`;
}

/** Returns the sentence for a header that cannot open or join an envelope. */
export function describeEnvelopeHeader({ usd, calls, ttl_seconds, open }: NonNullable<RefusalDetails["envelope"]>) {
  if (open !== undefined) {
    return `This caller has ${count(open)} open envelopes, the most that it may have. End some of them, or wait until they expire.`;
  }
  const members = [
    // JSON writes small amounts with an exponent, which the header does not allow.
    `usd=${readUsdAmount(String(usd)) ?? usd}`,
    ...(calls == null ? [] : [`calls=${calls}`]),
    ...(ttl_seconds == null ? [] : [`ttl=${ttl_seconds}`]),
  ];
  return `The envelope of these calls was opened with other amounts. Send X-Platform-Envelope: ${members.join("; ")}, even if it was raised since, or another X-Platform-Entity-Id for another task.`;
}
