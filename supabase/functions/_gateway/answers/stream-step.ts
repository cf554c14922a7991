import type { AdmittedCall } from "../calls/surface.ts";
import type { ProviderAnswer } from "../providers/provider-answer.ts";
import type { RunEnd } from "../runs/run.ts";
import { estimateTokens, markOverrun } from "../usage/estimate.ts";
import { type CallUse, createCallUse, unbilledUse } from "../usage/usage.ts";
import { isUsageComplete, readUnbilledEnding, type StreamFacts, type StreamReader } from "./stream-reader.ts";

/** One provider call of a streamed answer. */
export type StreamStep = ProviderStream &
  Pick<AdmittedCall, "inputEstimate" | "usageLimits"> & { reader: StreamReader };

/** A provider's stream. `readWholeUsage` reads the usage of a non-streamed answer that arrives instead. */
export type ProviderStream = { answer: ProviderAnswer; readWholeUsage: (text: string) => CallUse | undefined };

/** Returns what a call used, as far as its stream shows. */
export function readStepUse(step: StreamStep, status: "succeeded"): CallUse;
export function readStepUse(step: StreamStep, status: RunEnd["status"]): CallUse | undefined;
export function readStepUse(
  { answer, reader: { facts }, inputEstimate, usageLimits, readWholeUsage }: StreamStep,
  status: RunEnd["status"],
): CallUse | undefined {
  const route = answer.route.position;
  const ending = readUnbilledEnding(facts);
  if (ending && answer.unbilled?.includes(ending)) return unbilledUse(route);
  const { estimatedOutputTokens, servedTier } = facts;
  const usage = facts.usage && (servedTier === undefined ? facts.usage : { ...facts.usage, servedTier });
  if (usage && isUsageComplete(facts, status === "succeeded")) return createCallUse(usage, { route, basis: "final" });
  if (usage && usage.counts.input_tokens > 0 && estimatedOutputTokens === estimateAtUsage(facts)) {
    return createCallUse(usage, { route, basis: "partial" });
  }
  const stated = facts.wholeAnswerText === undefined ? undefined : readWholeUsage(facts.wholeAnswerText);
  if (stated) return stated;
  // A stream that fails before any output is free, like a failed non-streamed call.
  if (facts.events === 0 && (status === "failed" || facts.failed)) return undefined;
  const { counts, ...details } = { ...usage, ...(servedTier === undefined ? {} : { servedTier }) };
  const input = readInputTokens(facts) === undefined ? inputEstimate : {};
  const output = countOutputTokens(facts);
  const use = { ...details, route, usage: { ...counts, ...input, output_tokens: output }, basis: "guess" } as const;
  return markOverrun(use, output, usageLimits);
}

/** Returns the stated input tokens, or undefined if they are not stated yet or are a preliminary zero. */
export function readInputTokens({ usage, usageIsFinal }: StreamFacts): number | undefined {
  return usageIsFinal ? usage?.counts.input_tokens : usage?.counts.input_tokens || undefined;
}

/** Returns the output tokens so far: the last count plus an estimate of the output since then. */
export function countOutputTokens(facts: StreamFacts): number {
  const counted = facts.usage?.counts.output_tokens ?? 0;
  return facts.usageIsFinal && counted > 0 ? counted : counted + facts.estimatedOutputTokens - estimateAtUsage(facts);
}

/**
 * Returns the part of the estimated output that the last count already covers. Some providers count zero output until
 * the end, and a count of zero covers nothing.
 */
function estimateAtUsage({ usage, outputBytesAtUsage }: StreamFacts): number {
  return usage && usage.counts.output_tokens > 0 ? estimateTokens(outputBytesAtUsage) : 0;
}
