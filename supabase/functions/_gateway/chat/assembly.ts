import { z } from "zod";
import { mergeDelta, wholeMessage } from "../../_shared/chat-delta.ts";
import type { StreamedAnswer } from "../answers/stream-reader.ts";
import { maxStoredSize } from "../runs/captured-content.ts";
import { chooseUsage, readChatTexts } from "./completion.ts";

const text = z.string().nullish().catch(undefined);
const entries = z.array(z.unknown()).nullish().catch(undefined);
const chunkShape = z.looseObject({
  id: text,
  created: z.number().optional().catch(undefined),
  model: text,
  choices: z
    .array(
      z.looseObject({
        index: z.number().int().min(0).max(127).catch(0),
        finish_reason: text,
        logprobs: z.looseObject({ content: entries, refusal: entries }).nullish().catch(undefined),
        delta: z.record(z.string(), z.unknown()).nullish().catch(undefined),
      }),
    )
    .nullish(),
});

type Logprobs = { content: unknown[] | null; refusal: unknown[] | null };
type Choice = { message: Record<string, unknown>; finish: string | null; logprobs?: Logprobs | undefined };

/** Larger answers are not assembled, so they can't be stored or replayed. */
const maxCharacters = 4 * 1024 * 1024;
/**
 * Maximum size of an answer's log probabilities, in characters. Larger log probabilities are left out, so that the text
 * can still be stored.
 */
const maxProbabilities = (3 / 4) * maxStoredSize;

/** Assembles the chunks of a streamed chat into its non-streamed form. */
export function createAssembly(): { take: (chunk: unknown) => void; answer: () => StreamedAnswer | undefined } {
  const choices: Choice[] = [];
  let name: { id: string; created: number; model: string } | undefined;
  let usage: Record<string, unknown> | undefined;
  let characters = 0;
  /** The size of the log probabilities so far, in characters. */
  let probabilities = 0;

  function take(data: unknown): void {
    const { data: chunk } = chunkShape.safeParse(data);
    if (!chunk || characters > maxCharacters) return;
    if (!name && chunk.id) name = { id: chunk.id, created: chunk.created ?? 0, model: chunk.model ?? "" };
    usage = chooseUsage(usage, chunk);
    for (const { index, delta, finish_reason, logprobs } of chunk.choices ?? []) {
      choices[index] ??= { message: {}, finish: null };
      const choice = choices[index];
      if (logprobs) addLogprobs(choice, logprobs);
      if (finish_reason) choice.finish = finish_reason;
      if (!delta) continue;
      mergeDelta(choice.message, delta);
      characters += JSON.stringify(delta).length;
    }
  }

  function addLogprobs(choice: Choice, { content, refusal }: Partial<Record<keyof Logprobs, unknown[] | null>>): void {
    if (probabilities > maxProbabilities) return;
    choice.logprobs ??= { content: null, refusal: null };
    for (const [kind, more] of [["content", content] as const, ["refusal", refusal] as const]) {
      if (!more) continue;
      probabilities += JSON.stringify(more).length;
      choice.logprobs[kind] ??= [];
      for (const each of more) choice.logprobs[kind].push(each);
    }
    if (probabilities > maxProbabilities) for (const each of choices) if (each) each.logprobs = undefined;
  }

  function answer(): StreamedAnswer | undefined {
    if (!name || characters > maxCharacters) return undefined;
    const value = {
      ...name,
      object: "chat.completion",
      choices: choices.flatMap((choice, index) => (choice ? [wholeChoice(choice, index)] : [])),
      ...(usage === undefined ? {} : { usage }),
    };
    return { value, texts: () => readChatTexts(value) };
  }

  return { take, answer };
}

function wholeChoice({ message, finish, logprobs }: Choice, index: number): object {
  return {
    index,
    message: { refusal: null, ...wholeMessage(message) },
    logprobs: logprobs ?? null,
    finish_reason: finish,
  };
}
