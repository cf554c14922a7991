import { type ProviderAnswer, ProviderFailure } from "./providers/provider.ts";
import type { OpenRun } from "./run.ts";
import type { Surface } from "./surface.ts";
import { guessTokens, type UsageBound } from "./usage.ts";

/** No answer that fits the output limit is larger. */
const maxAnswerBytes = 32 * 1024 * 1024;

/**
 * Reads a whole, non-streamed answer, settles its run and returns its text with `platform` added to it; nothing else
 * of it is written anew.
 * @throws ProviderFailure when it is no answer of the surface: the provider may have charged for it all the same
 */
export async function relayWholeAnswer(options: {
  answer: ProviderAnswer;
  open: OpenRun;
  readAnswer: Surface<never>["readAnswer"];
  guessedInputTokens: number;
  usageBound: UsageBound;
  name: string;
  clientLeft: AbortSignal;
}): Promise<string> {
  const { answer, open, name } = options;
  const route = answer.route.position;
  const text = await readText(answer);
  const value = parse(text);
  const read = options.readAnswer(value, options.usageBound);
  if (!read || !isObject(value)) throw unusable();
  if (read.failed) throw unusable(read.usage && { route, usage: read.usage, basis: "final" });
  const guessed = { input_tokens: options.guessedInputTokens, output_tokens: guessTokens(read.outputBytes) };
  open.addStep({ type: "model", name, status: "succeeded" }, answer.startedAt);
  const platform = open.end({
    // A provider that is paid for all of it was read to the end, though nobody hears it.
    ...(options.clientLeft.aborted
      ? { status: "cancelled", httpStatus: 499 }
      : { status: "succeeded", httpStatus: 200 }),
    use: { route, usage: read.usage ?? guessed, basis: read.usage ? "final" : "guess" },
    firstByteMs: Math.round(answer.firstByteAt - answer.startedAt),
  });
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

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw unusable();
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function unusable(use?: ProviderFailure["use"]): ProviderFailure {
  return new ProviderFailure({ code: "provider_error", mayHaveCharged: true, retryable: false, use });
}
