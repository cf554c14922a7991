import { mergeDelta, wholeMessage } from "#shared/chat-delta.ts";
import type { AssistantMessage } from "./chat-message.ts";
import { factsOfPlatform, parseAnswer, type RunFacts } from "./run-facts.ts";

/** An answer as far as it has come. */
export interface ChatAnswer {
  message: AssistantMessage;
  /** Of a whole answer alone. */
  facts?: RunFacts;
  finish?: string;
  /** What the gateway said instead of going on. */
  error?: unknown;
}

/** Puts an answer together from the chunks of its stream. Unknown things in them are passed over. */
export function createChatAnswer(): { take: (data: string) => void; answer: () => ChatAnswer } {
  const merged: Record<string, unknown> = {};
  let facts: RunFacts | undefined;
  let finish: string | undefined;
  let error: unknown;

  function take(data: string): void {
    if (data === "[DONE]") return;
    const chunk = parseAnswer(data);
    if (chunk?.error) error = chunk.error;
    if (chunk?.platform) facts = factsOfPlatform(chunk.platform);
    const choice = chunk?.choices?.[0];
    if (typeof choice?.finish_reason === "string") finish = choice.finish_reason;
    if (choice?.delta) mergeDelta(merged, choice.delta);
  }

  return {
    take,
    answer: () => ({
      message: wholeMessage(merged) as AssistantMessage,
      ...(facts ? { facts } : {}),
      ...(finish ? { finish } : {}),
      ...(error ? { error } : {}),
    }),
  };
}

/** An answer that came whole, by way of what its stream would have been. @throws Error for what is no completion */
export function readWholeAnswer(text: string): ChatAnswer {
  const { choices, platform } = parseAnswer(text);
  const [{ message, finish_reason }] = choices;
  const whole = createChatAnswer();
  whole.take(JSON.stringify({ choices: [{ delta: message, finish_reason }], platform }));
  return whole.answer();
}
