import type { AdmittedCall } from "../call.ts";
import type { ProviderAnswer } from "../providers/provider-answer.ts";
import { ClientLeft, invalidAnswer, ProviderFailure, refusalFailure } from "../providers/provider-failure.ts";
import type { CallUse } from "../runs/run-cost.ts";
import type { SaidTexts } from "../structured/answer-schema.ts";
import type { AnswerFormat, Asked, WholeAnswer } from "../surface.ts";
import { createOutputCounter, estimateTokens, markOverrun } from "../usage/estimate.ts";
import { parseAnswer } from "../usage/read-usage.ts";
import { callUse, type UsageLimits } from "../usage/usage.ts";
import { tellsError } from "./error-events.ts";
import { nestsTooDeeply } from "./nesting.ts";
import { countsAll, type StreamReader } from "./stream-reader.ts";

/** No answer that fits the output limit is larger. */
const maxAnswerBytes = 32 * 1024 * 1024;

/** A non-streamed answer: as it came, as it reads, and what it used. */
export type ReadAnswer = { text: string; value: Record<string, unknown>; use: CallUse; said?: () => SaidTexts };

/**
 * Reads a whole, non-streamed answer.
 * @throws ProviderFailure when it is no answer of the surface: the provider may have charged for it all the same, and a
 * stream in its place may say how much
 */
export async function readWholeAnswer<Request extends Asked>(
  answer: ProviderAnswer,
  call: AdmittedCall<Request>,
  { readAnswer, createReader }: Pick<AnswerFormat<Request>, "readAnswer" | "createReader">,
): Promise<ReadAnswer> {
  const route = answer.route.position;
  const first = await firstOf(answer);
  // A page of a proxy or of a wrong address: no model has been asked.
  if (first && beginOf(first) === lessThan) throw new ProviderFailure("invalid_answer", { mayHaveCharged: false });
  if (first && createReader && beginsStream(first)) {
    const inItsPlace = (text: string) => statedInWhole(text, { route, usageLimits: call.usageLimits, readAnswer });
    throw invalidAnswer(await statedUse(answer, { reader: createReader(call), inItsPlace }, first));
  }
  const received = first ? await readText(answer, first) : "";
  const value: unknown = orUnusable(() => parseAnswer(received));
  const read = orUnusable(() => readAnswer(value, call.usageLimits));
  if (!isObject(value)) throw invalidAnswer();
  if ((!read || read.failed) && !value.usage && tellsError(value)) {
    throw refusalFailure({ status: 200, text: received });
  }
  if (!read) throw invalidAnswer();
  const text = read.corrected ? orUnusable(() => JSON.stringify(value)) : received;
  const use = chargedUse(read, { text, route, call });
  if (read.failed || nestsTooDeeply(value, text)) throw invalidAnswer(use.basis === "final" ? use : undefined);
  return { text, value, use, said: read.said };
}

/** What a whole answer used: as stated, but zeros next to content are a placeholder. */
function chargedUse(
  { usage, output, servedTier }: WholeAnswer,
  { text, route, call }: { text: string; route: number; call: Pick<AdmittedCall, "inputEstimate" | "usageLimits"> },
): CallUse {
  const { input_tokens = 0, output_tokens = 0 } = usage?.counts ?? {};
  const delivered = output && output_tokens === 0 ? estimateTokens(createOutputCounter(output)(text)) : 0;
  const isCounted = delivered === 0 && (input_tokens > 0 || output_tokens > 0 || output !== undefined);
  if (usage && isCounted) return callUse(usage, { route, basis: "final" });
  const input = usage && input_tokens > 0 ? usage.counts : call.inputEstimate;
  const { counts, ...facts } = { ...usage, ...(servedTier === undefined ? {} : { servedTier }) };
  const use = { ...facts, route, usage: { ...input, output_tokens: delivered }, basis: "guess" } as const;
  return markOverrun(use, delivered, call.usageLimits);
}

/** What a text that reaches nobody, and may be a whole answer, says that its call used. */
export function statedInWhole(
  text: string,
  {
    route,
    usageLimits,
    readAnswer,
  }: { route: number; usageLimits: UsageLimits } & Pick<AnswerFormat<Asked>, "readAnswer">,
): CallUse | undefined {
  try {
    const usage = readAnswer(parseAnswer(text), usageLimits)?.usage;
    return usage && callUse(usage, { route, basis: "final" });
  } catch {
    return undefined;
  }
}

/** The first that comes but for blanks, which say nothing of what follows; with a byte order mark that came before it. */
async function firstOf(answer: ProviderAnswer): Promise<Uint8Array | undefined> {
  let size = 0;
  const mark: number[] = [];
  let first = await answer.read();
  while (first?.every(isBlank)) {
    size += first.byteLength;
    mark.push(...first.filter((byte) => markBytes.has(byte)));
    if (size > maxAnswerBytes || mark.length > markBytes.size) refuse(answer);
    first = await answer.read();
  }
  return first && mark.length > 0 ? Uint8Array.of(...mark, ...first) : first;
}

const openBrace = 0x7b;
const lessThan = 0x3c;
const markBytes = new Set([0xef, 0xbb, 0xbf]);
/** White space of JSON, and the bytes of a byte order mark. */
const blankBytes = new Set([0x20, 0x09, 0x0a, 0x0d, ...markBytes]);
const isBlank = (byte: number) => blankBytes.has(byte);

/** Whether the first bytes of an answer are of no JSON that could be one, as those of all events are. */
function beginsStream(bytes: Uint8Array): boolean {
  return beginOf(bytes) !== openBrace;
}

function beginOf(bytes: Uint8Array): number | undefined {
  return bytes.find((byte) => !isBlank(byte));
}

/**
 * Reads a stream that reaches nobody for what it says that it used, which stands however it ends.
 * @throws ProviderFailure where it ends before that, or ClientLeft
 */
async function statedUse(
  answer: ProviderAnswer,
  { reader, inItsPlace }: { reader: StreamReader; inItsPlace: (text: string) => CallUse | undefined },
  first: Uint8Array,
): Promise<CallUse | undefined> {
  const { facts } = reader;
  const said = (): CallUse | undefined => {
    const { usage } = facts;
    if (usage && countsAll(facts, facts.done)) return callUse(usage, { route: answer.route.position, basis: "final" });
    return facts.inItsPlace === undefined ? undefined : inItsPlace(facts.inItsPlace);
  };
  try {
    let size = 0;
    for (let bytes: Uint8Array | undefined = first; bytes; bytes = await answer.read()) {
      reader.push(bytes);
      size += bytes.byteLength;
      if (facts.done || facts.failed || size > maxAnswerBytes) return said();
    }
    reader.end();
    return said();
  } catch (error) {
    if (error instanceof ClientLeft) error.use = said();
    else if (said()) return said();
    throw error;
  } finally {
    answer.cancel();
  }
}

/** An answer's text with `platform` added to it; nothing else of it is written anew. */
export function withPlatform({ text, value }: ReadAnswer, platform: Record<string, unknown>): string {
  if ("platform" in value) return JSON.stringify({ ...value, platform });
  const openEnded = text.trimEnd().slice(0, -1);
  return `${openEnded},"platform":${JSON.stringify(platform)}}`;
}

/** Keeps nothing from one use to the next, so that it does for all. */
const utf8 = new TextDecoder("utf-8", { fatal: true });

/** The whole text; what is no UTF-8 is refused as soon as it comes. Nearly always there is one piece. */
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
    if (size > maxAnswerBytes) refuse(answer);
    // A mark that is not at the beginning of all is part of the text.
    decoder ??= new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    text += decode(answer, decoder, bytes);
  }
  return decoder ? text + decode(answer, decoder) : text;
}

/** Undefined where it ends within a character, or is no UTF-8. */
function wholeText(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}

/** @param bytes the next of them; without, that was all */
function decode(answer: ProviderAnswer, decoder: TextDecoder, bytes?: Uint8Array): string {
  try {
    return decoder.decode(bytes, { stream: bytes !== undefined });
  } catch {
    return refuse(answer);
  }
}

/** Whatever more would come is of no use. */
function refuse(answer: ProviderAnswer): never {
  answer.cancel();
  throw invalidAnswer();
}

/** JSON that is none throws, and so does what is nested too deeply to be written anew. */
function orUnusable<Value>(read: () => Value): Value {
  try {
    return read();
  } catch {
    throw invalidAnswer();
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
