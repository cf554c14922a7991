import { formatCount, formatExactCredits, formatExactUsd } from "../../ui/format-amount.ts";
import type { PricingCall, PricingLine, PricingNote, RunPricing } from "./pricing-schema.ts";
import type { RunSummary } from "./run-schema.ts";

export const itemWords = {
  input: "Text input",
  cached_input: "Cached input",
  cache_write: "Cache write",
  cache_write_1h: "Cache write, 1 hour",
  audio_input: "Audio input",
  image_input: "Image input",
  output: "Output (includes reasoning)",
  audio_output: "Audio output",
  request_fee: "Web search fee",
  stated_cost: "Cost stated by the provider",
  not_itemised: "Not itemized",
  rounding: "Rounding to 12 decimals",
} as const satisfies Record<PricingLine["item"], string>;

/**
 * Formats a line's unit price, such as "$2.50 per million". If the line's item has no price of its own, adds the name
 * of the item whose price applies.
 */
export function unitPriceWords({ item, unitPriceUsd, pricedAs }: PricingLine): string {
  if (unitPriceUsd === null) return "–";
  const per = `${formatExactUsd(unitPriceUsd)} ${item === "request_fee" ? "each" : "per million"}`;
  return pricedAs === null ? per : `${per} (price of ${itemWords[pricedAs].split(/,| \(/)[0]?.toLowerCase()})`;
}

const noteWords = {
  running: "The run is still in progress. Its credits are reserved and are charged when it ends.",
  not_called: "Nothing was billed: the run ended before a provider was called.",
  usage_unknown: "Nothing was billed: the run’s usage is unknown.",
  exempt: "No credits were charged, because this run came from an external app.",
  partial: "Part of the usage was reported by the provider. The rest is estimated or unknown.",
  estimated: "The run ended early, so its usage is estimated.",
  swept:
    "The gateway stopped before it reported this run. The run was closed at its last known cost, and never above its reservation. If no cost was known, the reservation is shown as not billed. If token counts arrive later, the cost is corrected.",
  stated_cost: "The provider states what a call costs, and this route uses that instead of the price list.",
  several_calls: "This run made several calls. Each is priced separately, at the price for its own input size.",
  not_itemised: "Token counts explain only part of this cost. The rest is listed as “Not itemized”.",
  uncounted_attempts:
    "The provider may have charged for a request whose answer wasn’t used. That charge isn’t part of this run’s cost.",
  repeats_free: "The request had an idempotency key. Repeating it calls no provider and costs nothing.",
} as const satisfies Record<PricingNote, string>;

const exemptByKey = "No credits were charged, because this run used an app’s API key.";

/** Explains how a run was priced, with at most one reason why nothing was billed. */
export function pricingNoteWords(
  { notes, unmeteredCredits }: Pick<RunPricing, "notes" | "unmeteredCredits">,
  { credentialSource }: Pick<RunSummary, "credentialSource">,
): string[] {
  const unbilled = notes.includes("not_called") || notes.includes("usage_unknown");
  // If the sweep settled the run, the note “swept” already explains the credits that were not billed.
  const priced = Number(unmeteredCredits) > 0 && !notes.includes("swept");
  return notes.flatMap((note) => {
    if (note !== "exempt") return noteWords[note];
    if (unbilled) return [];
    const reason = credentialSource === "key" ? exemptByKey : noteWords.exempt;
    return priced ? `${reason} “Credits not billed” shows what it would have cost.` : reason;
  });
}

/** Says which price list applied to a call: "Prices of openai, gpt-5 (route 1), priority tier (×1.75), price for 200,000 or more input tokens". */
export function priceListWords({
  provider,
  model,
  route,
  serviceTier,
  minInputTokens,
  multiplier,
}: PricingCall): string {
  const times = multiplier === "1" ? "" : ` (×${multiplier})`;
  return [
    `Prices of ${provider}, ${model} (route ${route})`,
    serviceTier ? `${serviceTier} tier${times}` : "default tier",
    ...(minInputTokens > 0 ? [`price for ${formatCount(minInputTokens)} or more input tokens`] : []),
  ].join(", ");
}

/**
 * Shows how dollars became credits: "$0.0028 × 10,000 × 1.2 = 33.6 credits". Null if provider cost is hidden, or if a
 * cost was not billed.
 */
export function creditsFormula({ costUsd, markup, billedCredits, unmeteredCredits, notes }: RunPricing): string | null {
  if (costUsd === null || markup === null || notes.includes("running")) return null;
  // If the sweep settled an exempt run without a cost, `unmeteredCredits` is the reserved amount, not the price of a
  // cost. The formula then shows the billed credits.
  const credits = notes.includes("exempt") && costUsd !== "0" ? unmeteredCredits : billedCredits;
  if (Number(credits) === 0 && Number(costUsd) * Number(markup) > 0) return null;
  return `${formatExactUsd(costUsd)} × 10,000 × ${markup} = ${formatExactCredits(credits)} credits`;
}
