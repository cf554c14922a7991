import { Buffer } from "node:buffer";
import { addMarks, type CallCounts, type UsageFacts, type UsageLimits } from "./usage.ts";

const bytesPerToken = 4;
/** Number of tokens that the chat format adds to each message. */
const tokensPerMessage = 3;
/** Between OpenAI's 10 and Gemini's 32 tokens per second, and within a factor of two of both. */
const audioTokensPerSecond = 18;

/** By how much an input may exceed its estimate before an output limit that the gateway chose no longer fits. */
export const estimateMargin = 1.5;

/** The contents of a request's input by kind. Media don't count as text. */
export type InputParts = {
  texts: readonly string[];
  messages?: number;
  imageTokens?: number;
  documentTokens?: number;
  audioSeconds?: number;
};

/** Estimates the tokens of a text from its length in bytes of UTF-8. */
export function estimateTokens(bytes: number): number {
  return Math.ceil(bytes / bytesPerToken);
}

/** Estimates the token counts of a request's input. */
export function estimateInput({
  texts,
  messages = 0,
  imageTokens = 0,
  documentTokens = 0,
  audioSeconds = 0,
}: InputParts): CallCounts {
  const text = estimateTokens(texts.reduce((sum, each) => sum + Buffer.byteLength(each), 0));
  const audio = Math.ceil(audioSeconds * audioTokensPerSecond);
  return {
    input_tokens: text + messages * tokensPerMessage + imageTokens + documentTokens + audio,
    ...(audio > 0 ? { audio_input_tokens: audio } : {}),
    ...(imageTokens > 0 ? { image_input_tokens: imageTokens } : {}),
    output_tokens: 0,
  };
}

/** If an estimate is above this many times the output limit, the provider certainly ignored the limit. */
const certainOverrun = 2;

/** Marks usage if its estimated output shows that the provider ignored the output limit. */
export function markOverrun<Facts extends UsageFacts>(facts: Facts, output: number, limits: UsageLimits): Facts {
  const limit = limits.outputLimit * limits.choices;
  return output > limit * certainOverrun ? addMarks(facts, "above_output_limit") : facts;
}

const quote = 0x22;
const backslash = 0x5c;
const letterU = 0x75;

/**
 * Counts the bytes of output text in a stream's events, or in a whole answer that is passed as one event.
 * @param output matches what precedes each output text, such as `"content":"`; must have the `g` flag
 * @returns a function that takes the next event and returns the bytes so far
 */
export function createOutputCounter(output: RegExp): (event: string) => number {
  let bytes = 0;
  return (event) => {
    output.lastIndex = 0;
    while (output.test(event)) bytes += textBytes(event, output.lastIndex);
    return bytes;
  };
}

/**
 * Returns the number of UTF-8 bytes in a JSON string's text, or 0 if the string is unclosed. Uses a loop, because a
 * regular expression would overflow the stack.
 */
function textBytes(json: string, from: number): number {
  let bytes = 0;
  for (let at = from; at < json.length; at++) {
    const unit = json.charCodeAt(at);
    if (unit === quote) return bytes;
    if (unit !== backslash) bytes += bytesOf(unit);
    else if (json.charCodeAt(at + 1) === letterU) {
      bytes += bytesOf(Number.parseInt(json.slice(at + 2, at + 6), 16));
      at += 5;
    } else {
      bytes += 1;
      at += 1;
    }
  }
  return 0;
}

/**
 * Returns the number of UTF-8 bytes for a UTF-16 code unit. Each half of a surrogate pair counts as two of the pair's
 * four bytes.
 */
function bytesOf(unit: number): number {
  return unit < 0x80 ? 1 : unit < 0x800 || (unit & 0xf800) === 0xd800 ? 2 : 3;
}
