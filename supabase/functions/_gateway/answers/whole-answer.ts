import type { AdmittedCall } from "../call.ts";
import { type ProviderAnswer, ProviderFailure } from "../providers/provider.ts";
import type { CallUse } from "../runs/run.ts";
import { guessTokens } from "../runs/usage.ts";
import type { SaidTexts } from "../structured/answer-schema.ts";
import type { AnswerFormat, Asked } from "../surface.ts";
import type { StreamReader } from "./stream-reader.ts";

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
  const text = await readText(answer);
  const value = parse(text);
  if (value === undefined) throw unusable(createReader && statedUse(text, { route, reader: createReader(call) }));
  const read = readAnswer(value, call.usageBound);
  if (!read || !isObject(value)) throw unusable();
  if (read.failed) throw unusable(read.usage && { route, usage: read.usage, basis: "final" });
  const guessed = { input_tokens: call.guessedInputTokens, output_tokens: guessTokens(read.outputBytes) };
  const use = { route, usage: read.usage ?? guessed, basis: read.usage ? "final" : "guess" } as const;
  return { text, value, use, said: read.said };
}

/** What a stream says that it used in all. */
function statedUse(text: string, { route, reader }: { route: number; reader: StreamReader }): CallUse | undefined {
  reader.push(new TextEncoder().encode(text));
  reader.end();
  const { usage, usageIsFinal } = reader.facts;
  return usage && usageIsFinal ? { route, usage, basis: "final" } : undefined;
}

/** An answer's text with `platform` added to it; nothing else of it is written anew. */
export function withPlatform({ text, value }: ReadAnswer, platform: Record<string, unknown>): string {
  if ("platform" in value) return JSON.stringify({ ...value, platform });
  const openEnded = text.trimEnd().slice(0, -1);
  return `${openEnded},"platform":${JSON.stringify(platform)}}`;
}

async function readText(answer: ProviderAnswer): Promise<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let text = "";
  let size = 0;
  for (let bytes = await answer.read(); bytes; bytes = await answer.read()) {
    size += bytes.byteLength;
    if (size > maxAnswerBytes) {
      answer.cancel();
      throw unusable();
    }
    text += decode(() => decoder.decode(bytes, { stream: true }));
  }
  return text + decode(() => decoder.decode());
}

function decode(work: () => string): string {
  try {
    return work();
  } catch {
    throw unusable();
  }
}

/** @returns undefined for what is no JSON */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** @param use what the provider says that it used for the answer */
export function unusable(use?: CallUse): ProviderFailure {
  return new ProviderFailure({ code: "provider_error", mayHaveCharged: true, retryable: false, use });
}
