import { isObject } from "../../_shared/json.ts";
import type { AdmittedCall } from "../calls/surface.ts";
import type { ProviderAnswer } from "../providers/provider-answer.ts";
import {
  ClientLeft,
  createInvalidAnswerFailure,
  ProviderFailure,
  refusalFailure,
} from "../providers/provider-failure.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";
import type { OutputTexts } from "../structured/answer-schema.ts";
import { createOutputCounter, estimateTokens, markOverrun } from "../usage/estimate.ts";
import { parseAnswer } from "../usage/read-usage.ts";
import { type CallUse, createCallUse, type UsageLimits, unbilledUse } from "../usage/usage.ts";
import type { AnswerFormat, WholeAnswer } from "./answer-format.ts";
import { reportsError, reportsUsage } from "./error-events.ts";
import { nestsTooDeeply } from "./nesting.ts";
import { isBilled, isUsageComplete, type StreamReader } from "./stream-reader.ts";

/** The largest accepted answer. The output limits keep real answers smaller. */
const maxAnswerBytes = 32 * 1024 * 1024;

/** A non-streamed answer with its original text, its parsed value and its usage. */
export type ReadAnswer = { text: string; value: Record<string, unknown>; use: CallUse; texts?: () => OutputTexts };

/**
 * Reads a non-streamed answer.
 * @throws ProviderFailure if the answer is not in the surface's format. If the provider sent a stream instead, the
 * usage that the stream states is charged.
 */
export async function readWholeAnswer<Call extends Pick<AdmittedCall, "inputEstimate" | "usageLimits">>(
  answer: ProviderAnswer,
  call: Call,
  {
    readAnswer,
    createReader,
  }: Pick<AnswerFormat<ParsedRequest>, "readAnswer"> & { createReader?: (call: Call) => StreamReader },
): Promise<ReadAnswer> {
  const route = answer.route.position;
  const first = await readFirst(answer);
  // An HTML page comes from a proxy or a wrong address, so no model was called.
  if (first && firstByteOf(first) === lessThan) throw new ProviderFailure("invalid_answer", { mayHaveCharged: false });
  if (first && createReader && beginsStream(first)) {
    const wholeAnswerText = (text: string) => readStatedUse(text, { route, usageLimits: call.usageLimits, readAnswer });
    throw createInvalidAnswerFailure(
      await readStreamUse(answer, { reader: createReader(call), wholeAnswerText }, first),
    );
  }
  const received = first ? await readText(answer, first) : "";
  const value: unknown = parseOrRefuse(() => parseAnswer(received));
  const read = parseOrRefuse(() => readAnswer(value, call.usageLimits));
  if (!read || !isObject(value)) throw createInvalidAnswerFailure();
  const isRefused = (read.unreadable || read.failed) && reportsError(value);
  const refusal = isRefused ? refusalFailure({ status: 200, text: received }) : undefined;
  if (refusal && !reportsUsage(value)) throw refusal;
  const text = read.corrected ? parseOrRefuse(() => JSON.stringify(value)) : received;
  const use = readChargedUse(read, { text, answer, call });
  if (read.failed || read.unreadable || nestsTooDeeply(value, text)) {
    const stated = use.basis === "final" ? use : undefined;
    // Once the usage is known, another route may be called: both are charged.
    const retryable = stated !== undefined && refusal?.retryable !== false;
    throw createInvalidAnswerFailure(stated, { retryable, refusal });
  }
  return { text, value, use, texts: read.texts };
}

/**
 * Returns the usage that the provider states for a whole answer. Estimates usage that is missing or whose zeros are
 * only placeholders.
 */
function readChargedUse(
  { usage, output, servedTier, ending, unreadable }: WholeAnswer,
  {
    text,
    answer: {
      route: { position: route },
      unbilled,
    },
    call,
  }: {
    text: string;
    answer: Pick<ProviderAnswer, "route" | "unbilled">;
    call: Pick<AdmittedCall, "inputEstimate" | "usageLimits">;
  },
): CallUse {
  const { input_tokens = 0, output_tokens = 0 } = usage?.counts ?? {};
  const delivered = output && output_tokens === 0 ? estimateTokens(createOutputCounter(output)(text)) : 0;
  if (ending && unbilled?.includes(ending) && !isBilled(usage) && delivered === 0) return unbilledUse(route);
  if (unreadable && usage) return createCallUse(usage, { route, basis: "final" });
  const isCounted = delivered === 0 && (input_tokens > 0 || output_tokens > 0 || output !== undefined);
  if (usage && isCounted) return createCallUse(usage, { route, basis: "final" });
  const input = usage && input_tokens > 0 ? usage.counts : call.inputEstimate;
  const { counts, ...facts } = { ...usage, ...(servedTier === undefined ? {} : { servedTier }) };
  const use = { ...facts, route, usage: { ...input, output_tokens: delivered }, basis: "guess" } as const;
  return markOverrun(use, delivered, call.usageLimits);
}

/**
 * Returns the usage stated in an answer that the client never receives. Returns undefined if the text is not a whole
 * answer or states no usage.
 */
export function readStatedUse(
  text: string,
  {
    route,
    usageLimits,
    readAnswer,
  }: { route: number; usageLimits: UsageLimits } & Pick<AnswerFormat<ParsedRequest>, "readAnswer">,
): CallUse | undefined {
  try {
    const usage = readAnswer(parseAnswer(text), usageLimits)?.usage;
    return usage && createCallUse(usage, { route, basis: "final" });
  } catch {
    return undefined;
  }
}

/**
 * Skips pieces that contain only whitespace, because they don't show whether JSON or a stream follows. Returns the
 * first other piece, preceded by any byte order mark from the skipped pieces.
 */
async function readFirst(answer: ProviderAnswer): Promise<Uint8Array | undefined> {
  let size = 0;
  const mark: number[] = [];
  let first = await answer.read();
  while (first?.every(isBlank)) {
    size += first.byteLength;
    mark.push(...first.filter((byte) => markBytes.has(byte)));
    if (size > maxAnswerBytes || mark.length > markBytes.size) rejectAnswer(answer);
    first = await answer.read();
  }
  return first && mark.length > 0 ? Uint8Array.of(...mark, ...first) : first;
}

const openBrace = 0x7b;
const lessThan = 0x3c;
const markBytes = new Set([0xef, 0xbb, 0xbf]);
/** JSON whitespace, and the bytes of a byte order mark. */
const blankBytes = new Set([0x20, 0x09, 0x0a, 0x0d, ...markBytes]);
const isBlank = (byte: number) => blankBytes.has(byte);

/**
 * Returns whether the first bytes of an answer may begin a stream. A JSON answer begins with a brace, and an event
 * never does.
 */
function beginsStream(bytes: Uint8Array): boolean {
  return firstByteOf(bytes) !== openBrace;
}

function firstByteOf(bytes: Uint8Array): number | undefined {
  return bytes.find((byte) => !isBlank(byte));
}

/**
 * Reads the usage stated in a stream that isn't passed on to the client. The usage is valid even if the stream fails
 * afterwards.
 * @throws ClientLeft if the client disconnects; ProviderFailure if the stream fails before it states its usage
 */
async function readStreamUse(
  answer: ProviderAnswer,
  { reader, wholeAnswerText }: { reader: StreamReader; wholeAnswerText: (text: string) => CallUse | undefined },
  first: Uint8Array,
): Promise<CallUse | undefined> {
  const { facts } = reader;
  const statedUse = (): CallUse | undefined => {
    const { usage } = facts;
    if (usage && isUsageComplete(facts, facts.done))
      return createCallUse(usage, { route: answer.route.position, basis: "final" });
    return facts.wholeAnswerText === undefined ? undefined : wholeAnswerText(facts.wholeAnswerText);
  };
  try {
    let size = 0;
    for (let bytes: Uint8Array | undefined = first; bytes; bytes = await answer.read()) {
      reader.push(bytes);
      size += bytes.byteLength;
      if (facts.done || facts.failed || size > maxAnswerBytes) return statedUse();
    }
    reader.end();
    return statedUse();
  } catch (error) {
    if (error instanceof ClientLeft) error.use = statedUse();
    else if (statedUse()) return statedUse();
    throw error;
  } finally {
    answer.cancel();
  }
}

/**
 * Returns an answer's text with `platform` added. If the answer already has a `platform` member, replaces the member
 * and serializes the answer again. Otherwise leaves the rest of the text unchanged.
 */
export function addPlatform({ text, value }: ReadAnswer, platform: Record<string, unknown>): string {
  if ("platform" in value) return JSON.stringify({ ...value, platform });
  const openEnded = text.trimEnd().slice(0, -1);
  return `${openEnded},"platform":${JSON.stringify(platform)}}`;
}

/** Stateless between uses, so one instance serves all answers. */
const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Reads the whole text of an answer. Rejects invalid UTF-8 as soon as it arrives. */
async function readText(answer: ProviderAnswer, first: Uint8Array): Promise<string> {
  let decoder: TextDecoder | undefined;
  let text = wholeText(first);
  if (text === undefined) {
    decoder = new TextDecoder("utf-8", { fatal: true });
    text = decode(answer, decoder, first);
  }
  let size = first.byteLength;
  for (let bytes = await answer.read(); bytes; bytes = await answer.read()) {
    size += bytes.byteLength;
    if (size > maxAnswerBytes) rejectAnswer(answer);
    // Only a byte order mark at the beginning is removed. Later ones are part of the text.
    decoder ??= new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    text += decode(answer, decoder, bytes);
  }
  return decoder ? text + decode(answer, decoder) : text;
}

/** Decodes bytes as a complete text. Returns undefined if they end within a character or are not UTF-8. */
function wholeText(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}

/** @param bytes the next bytes, or undefined at the end */
function decode(answer: ProviderAnswer, decoder: TextDecoder, bytes?: Uint8Array): string {
  try {
    return decoder.decode(bytes, { stream: bytes !== undefined });
  } catch {
    return rejectAnswer(answer);
  }
}

/** Rejects the answer and cancels the provider call, since no further bytes are needed. */
function rejectAnswer(answer: ProviderAnswer): never {
  answer.cancel();
  throw createInvalidAnswerFailure();
}

/** Runs a parser. Rejects text that is not JSON, and JSON nested too deeply to be serialized again. */
function parseOrRefuse<Value>(read: () => Value): Value {
  try {
    return read();
  } catch {
    throw createInvalidAnswerFailure();
  }
}
