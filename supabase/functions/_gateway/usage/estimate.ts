import { Buffer } from "node:buffer";
import { type CallCounts, marked, type UsageFacts, type UsageLimits } from "./usage.ts";

const bytesPerToken = 4;
/** What a chat's format adds to each message. */
const tokensPerMessage = 3;
/** Between OpenAI's 10 a second and Gemini's 32, so within a factor of two of either. */
const audioTokensPerSecond = 18;

/** What a request's input holds, by kind. Media are never text. */
export type InputParts = { texts: readonly string[]; messages?: number; imageTokens?: number; audioSeconds?: number };

/** Estimates the tokens of a text of so many bytes of UTF-8. */
export function estimateTokens(bytes: number): number {
  return Math.ceil(bytes / bytesPerToken);
}

/** Estimates what a request's input counts. */
export function estimateInput({ texts, messages = 0, imageTokens = 0, audioSeconds = 0 }: InputParts): CallCounts {
  const text = estimateTokens(texts.reduce((sum, each) => sum + Buffer.byteLength(each), 0));
  const audio = Math.ceil(audioSeconds * audioTokensPerSecond);
  return {
    input_tokens: text + messages * tokensPerMessage + imageTokens + audio,
    ...(audio > 0 ? { audio_input_tokens: audio } : {}),
    ...(imageTokens > 0 ? { image_input_tokens: imageTokens } : {}),
    output_tokens: 0,
  };
}

/** How far an estimate may be above the output limit before the limit was surely ignored. */
const certainOverrun = 2;

/** Marks a use whose estimated output is far above the limit. */
export function markOverrun<Facts extends UsageFacts>(facts: Facts, output: number, limits: UsageLimits): Facts {
  const limit = limits.outputLimit * limits.choices;
  return output > limit * certainOverrun ? marked(facts, "above_output_limit") : facts;
}

const quote = 0x22;
const backslash = 0x5c;
const letterU = 0x75;

/**
 * Counts the bytes of the texts that are output in a stream's events. A whole answer is one event.
 * @param output finds where the JSON strings that are output begin, to the first character of their text; global
 * @returns takes the next event and returns the bytes so far
 */
export function createOutputCounter(output: RegExp): (event: string) => number {
  let bytes = 0;
  return (event) => {
    output.lastIndex = 0;
    while (output.test(event)) bytes += textBytes(event, output.lastIndex);
    return bytes;
  };
}

/** Bytes of UTF-8 of a JSON string's text; none where it is not closed. A loop: a pattern would overflow the stack. */
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

/** Each half of a surrogate pair is half of four bytes. */
function bytesOf(unit: number): number {
  return unit < 0x80 ? 1 : unit < 0x800 || (unit & 0xf800) === 0xd800 ? 2 : 3;
}
