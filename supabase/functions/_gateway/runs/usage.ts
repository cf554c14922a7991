import { z } from "zod";
import type { TokenCounts } from "../../_shared/money.ts";

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

const count = z.number().int().min(0);
const total = count.nullish().catch(undefined);
const details = z.object({
  cached_tokens: count.nullish(),
  audio_tokens: count.nullish(),
  reasoning_tokens: count.nullish(),
});
/** As chat completions and embeddings state it. */
const completionUsage = z.object({
  prompt_tokens: count,
  completion_tokens: count.nullish(),
  total_tokens: total,
  prompt_tokens_details: details.nullish(),
  completion_tokens_details: details.nullish(),
});
/** As responses state it. */
const responseUsage = z.object({
  input_tokens: count,
  output_tokens: count,
  total_tokens: total,
  input_tokens_details: details.nullish(),
  output_tokens_details: details.nullish(),
});

/** As Gemini states it. */
const geminiUsage = z.looseObject({
  promptTokenCount: count,
  candidatesTokenCount: count.nullish(),
  candidatesTokensDetails: z.array(z.looseObject({ modality: z.string(), tokenCount: count.nullish() })).nullish(),
});

/**
 * Reads usage of speech as Gemini states it.
 * @returns undefined where there is none that can be charged by
 */
export function readGeminiUsage(value: unknown, bound: UsageBound): Required<TokenCounts> | undefined {
  const parsed = geminiUsage.safeParse(value);
  if (!parsed.success) return undefined;
  const { promptTokenCount, candidatesTokenCount, candidatesTokensDetails } = parsed.data;
  const output = candidatesTokenCount ?? 0;
  const spoken = candidatesTokensDetails?.find(({ modality }) => modality === "AUDIO")?.tokenCount ?? output;
  return withinBound(bound, {
    input: promptTokenCount,
    output,
    inputDetails: null,
    outputDetails: { audio_tokens: Math.min(spoken, output) },
  });
}

/**
 * Reads usage as chat completions state it.
 * @returns undefined where there is none that can be charged by
 */
export function readCompletionUsage(value: unknown, bound: UsageBound): Required<TokenCounts> | undefined {
  const parsed = completionUsage.safeParse(value);
  if (!parsed.success) return undefined;
  const { prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details, completion_tokens_details } =
    parsed.data;
  // Not to count the output is not to count it as nothing; but the total may.
  if (completion_tokens == null && (total_tokens ?? 0) <= prompt_tokens) return undefined;
  return withinBound(bound, {
    input: prompt_tokens,
    output: completion_tokens ?? 0,
    total: total_tokens,
    inputDetails: prompt_tokens_details,
    outputDetails: completion_tokens_details,
  });
}

/**
 * Reads usage of embeddings, which have no output: a total beyond their input says nothing that has a price.
 * @returns undefined where there is none that can be charged by
 */
export function readEmbeddingUsage(value: unknown, bound: UsageBound): Required<TokenCounts> | undefined {
  const parsed = completionUsage.safeParse(value);
  if (!parsed.success) return undefined;
  const { prompt_tokens, prompt_tokens_details } = parsed.data;
  return withinBound(bound, {
    input: prompt_tokens,
    output: 0,
    inputDetails: prompt_tokens_details,
    outputDetails: null,
  });
}

/**
 * Reads usage as responses state it.
 * @returns undefined where there is none that can be charged by
 */
export function readResponseUsage(value: unknown, bound: UsageBound): Required<TokenCounts> | undefined {
  const parsed = responseUsage.safeParse(value);
  if (!parsed.success) return undefined;
  const { input_tokens, output_tokens, total_tokens, input_tokens_details, output_tokens_details } = parsed.data;
  return withinBound(bound, {
    input: input_tokens,
    output: output_tokens,
    total: total_tokens,
    inputDetails: input_tokens_details,
    outputDetails: output_tokens_details,
  });
}

type Details = z.infer<typeof details> | null | undefined;

type Stated = { input: number; output: number; total?: number | null; inputDetails: Details; outputDetails: Details };

/**
 * Thoughts, and those of them that are counted beside the output: xAI does that, and Google, which names them nowhere
 * but in the total. Whoever counts as OpenAI does has them in the output.
 */
function thoughtsOf({ input, output, total, outputDetails }: Stated): { all: number; apart: number } {
  const beyond = Math.max((total ?? 0) - input - output, 0);
  const all = outputDetails?.reasoning_tokens ?? beyond;
  return { all, apart: all === beyond ? all : 0 };
}

function withinBound(bound: UsageBound, stated: Stated): Required<TokenCounts> | undefined {
  const { input, inputDetails, outputDetails } = stated;
  const thoughts = thoughtsOf(stated);
  const output = stated.output + thoughts.apart;
  if (input > bound.inputTokens || output > bound.outputTokens) {
    bound.exceeded();
    return undefined;
  }
  // What is said to be of them and is more is charged as all of them, and told so: sums have to hold it.
  const cached = Math.min(inputDetails?.cached_tokens ?? 0, input);
  return {
    input_tokens: input,
    cached_input_tokens: cached,
    audio_input_tokens: Math.min(inputDetails?.audio_tokens ?? 0, input - cached),
    output_tokens: output,
    reasoning_tokens: Math.min(thoughts.all, bound.outputTokens),
    audio_output_tokens: Math.min(outputDetails?.audio_tokens ?? 0, output),
  };
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
