import { z } from "zod";
import { type ProviderAnswer, ProviderFailure } from "./provider.ts";
import type { OpenRun } from "./run.ts";
import { guessTokens, readUsage, type UsageBound } from "./usage.ts";

/** No answer that fits the output limit is larger. */
const maxAnswerBytes = 32 * 1024 * 1024;

const completion = z.looseObject({ choices: z.array(z.unknown()).min(1) });

/**
 * Reads a whole, non-streamed answer, settles its run and returns its text with `platform` added to it; nothing else
 * of it is written anew.
 * @throws ProviderFailure when it is no chat completion: the provider may have charged for it all the same
 */
export async function readChatAnswer(options: {
  answer: ProviderAnswer;
  open: OpenRun;
  guessedInputTokens: number;
  usageBound: UsageBound;
  name: string;
}): Promise<string> {
  const { answer, open } = options;
  const text = await readText(answer);
  const value = parse(text);
  const body = completion.safeParse(value);
  if (!body.success) throw unusable();
  const stated = readUsage(body.data.usage, options.usageBound);
  const guessed = {
    input_tokens: options.guessedInputTokens,
    output_tokens: guessTokens(JSON.stringify(body.data.choices).length),
  };
  open.addStep({ type: "model", name: options.name, status: "succeeded" }, answer.startedAt);
  const platform = open.end({
    status: "succeeded",
    httpStatus: 200,
    route: answer.route,
    usage: stated ?? guessed,
    source: stated ? "provider" : "provider_partial",
    estimated: !stated,
    firstByteMs: Math.round(answer.firstByteAt - answer.startedAt),
  });
  if ("platform" in body.data) return JSON.stringify({ ...body.data, platform });
  const open_ended = text.trimEnd().slice(0, -1);
  return `${open_ended},"platform":${JSON.stringify(platform)}}`;
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

function unusable(): ProviderFailure {
  return new ProviderFailure({ code: "provider_error", mayHaveCharged: true, retryable: false });
}
