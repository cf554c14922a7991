import type { TokenCounts } from "../../_shared/money.ts";
import { isObject } from "../structured/canonical.ts";
import { readCount, readStatedCounts, type StatedCounts, toTokenCounts } from "./stated-usage.ts";

/** What a request can use at the very most, and whom to tell that a provider stated more. */
export type UsageBound = { inputTokens: number; outputTokens: number; exceeded: () => void };

/** A provider's own prompts; an image at its dearest; and answers that outrun their limit, thoughts not counted in it. */
const allowance = { inputTokens: 10_000, tokensPerImage: 100_000, outputTokens: 100_000, outputFactor: 4 } as const;

/**
 * No token has less than a byte, so that nothing honest comes near this; what does not is a fault, and is not charged.
 * @param tell is told of the first such fault
 */
export function boundUsage(
  asked: { inputBytes: number; images: number; outputLimit: number; choices: number },
  tell: () => void,
): UsageBound {
  let told = false;
  return {
    inputTokens: asked.inputBytes + asked.images * allowance.tokensPerImage + allowance.inputTokens,
    outputTokens: asked.choices * (asked.outputLimit * allowance.outputFactor + allowance.outputTokens),
    exceeded() {
      if (!told) tell();
      told = true;
    },
  };
}

/**
 * Reads usage as chat completions and responses state it.
 * @returns undefined where there is none that can be charged by
 */
export function readCompletionUsage(value: unknown, bound: UsageBound): Required<TokenCounts> | undefined {
  const stated = readStatedCounts(value);
  const { total = 0, input = difference(total, stated.output) } = stated;
  // Not to count the output is not to count it as nothing; but the total may.
  const output = stated.output ?? difference(total, input);
  if (input === undefined || output === undefined) return undefined;
  return withinBound(bound, { ...stated, input, output });
}

/** What a total has beyond one of its two parts; undefined where that is nothing, or the part is not known. */
function difference(total: number, part: number | undefined): number | undefined {
  return part !== undefined && total > part ? total - part : undefined;
}

/**
 * Reads usage of embeddings, which have no output. Some state the total alone; one beyond their input has no price.
 * @returns undefined where there is none that can be charged by
 */
export function readEmbeddingUsage(value: unknown, bound: UsageBound): Required<TokenCounts> | undefined {
  const { total, thoughts, audioOutput, ...stated } = readStatedCounts(value);
  const input = stated.input ?? total;
  return input === undefined ? undefined : withinBound(bound, { ...stated, input, output: 0 });
}

/**
 * Reads usage of speech as Gemini states it.
 * @returns undefined where there is none that can be charged by; `spoken` tells whether what was spoken is counted
 */
export function readGeminiUsage(
  value: unknown,
  bound: UsageBound,
): { usage: Required<TokenCounts>; spoken: boolean } | undefined {
  const stated = readStatedCounts(value);
  const { input, total = 0 } = stated;
  if (input === undefined) return undefined;
  const counted = stated.output ?? difference(total, input);
  const output = counted ?? 0;
  const audioOutput = readModality(value, "AUDIO") ?? output;
  const usage = withinBound(bound, { ...stated, input, output, audioOutput });
  return usage && { usage, spoken: counted !== undefined };
}

/** How much of the output is of a kind, as Gemini lists them. */
function readModality(usage: unknown, modality: string): number | undefined {
  const kinds = isObject(usage) ? usage.candidatesTokensDetails : undefined;
  if (!Array.isArray(kinds)) return undefined;
  const kind: unknown = kinds.find((each) => isObject(each) && each.modality === modality);
  return isObject(kind) ? readCount(kind.tokenCount) : undefined;
}

/** Beyond the bound, details are not believed, and a usage whose input and output are is nothing to charge by. */
function withinBound(
  bound: UsageBound,
  stated: StatedCounts & { input: number; output: number },
): Required<TokenCounts> | undefined {
  const fits = (counts: Required<TokenCounts>) =>
    counts.input_tokens <= bound.inputTokens && counts.output_tokens <= bound.outputTokens;
  const counts = toTokenCounts(stated);
  if (fits(counts)) return counts;
  bound.exceeded();
  const { input, output, cacheReads, cacheWrites, thoughts } = stated;
  if (!cacheReads && !cacheWrites && !thoughts) return undefined;
  const bare = toTokenCounts({ input, output, thoughts: 0 });
  return fits(bare) ? bare : undefined;
}

/** A provider stated more than its call can have used. */
export class ImplausibleUsage extends Error {
  override readonly name = "ImplausibleUsage";
}

const bytesPerToken = 4;
const quote = 0x22;
const backslash = 0x5c;
const guessedTokensPerImage = 1_000;

/** A guess at the tokens of a text of so many bytes of UTF-8. What is charged by it never passes the reservation. */
export function guessTokens(bytes: number): number {
  return Math.ceil(bytes / bytesPerToken);
}

/** A guess at what a request's input counts. */
export function guessInputTokens({ inputBytes, images }: { inputBytes: number; images: number }): number {
  return guessTokens(inputBytes) + images * guessedTokensPerImage;
}

/**
 * Guesses the output of a stream from the texts in its events: by their bytes, and one token for each event with any,
 * since providers send a token at a time or more.
 * @param output finds where the JSON strings that are output begin, to the first of their text; global
 * @returns takes the next event and returns the guess so far
 */
export function createOutputGuess(output: RegExp): (event: string) => number {
  let bytes = 0;
  let events = 0;
  return (event) => {
    let found = 0;
    while (output.test(event)) found += textBytes(event, output.lastIndex);
    bytes += found;
    if (found > 0) events += 1;
    return Math.max(events, guessTokens(bytes));
  };
}

/**
 * Bytes of UTF-8 of a JSON string's text; an escape counts as the one byte that it nearly always is, and a string that is
 * not closed as none. A loop, since a pattern takes more stack for a large text than there is.
 */
function textBytes(json: string, from: number): number {
  let bytes = 0;
  for (let at = from; at < json.length; at++) {
    const unit = json.charCodeAt(at);
    if (unit === quote) return bytes;
    if (unit === backslash) at += json[at + 1] === "u" ? 5 : 1;
    // Each half of a surrogate pair is half of four bytes.
    bytes += unit < 0x80 ? 1 : unit < 0x800 || (unit & 0xf800) === 0xd800 ? 2 : 3;
  }
  return 0;
}
