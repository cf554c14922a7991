import type { ChatAnswer } from "./chat-answer.ts";
import type { ChatBody, ChatMessage } from "./chat-message.ts";
import type { RunFacts } from "./run-facts.ts";

/** Something that was said in a conversation, with what is told of it. */
export interface Entry {
  message: ChatMessage;
  facts?: RunFacts | undefined;
  /** That the answer was to be JSON. */
  structured?: boolean | undefined;
  /** Why the answer is not all that it might be. */
  note?: string | undefined;
}

const finishes: Record<string, string> = {
  length: "Cut off at the output limit.",
  content_filter: "Ended by the provider's content filter.",
};

/** An answer that has ended well, as a part of the conversation. */
export function answerEntry({ message, facts, finish }: ChatAnswer, body: ChatBody): Entry {
  return {
    message,
    facts,
    structured: body.response_format !== undefined && message.content !== null,
    note: finish === undefined ? undefined : finishes[finish],
  };
}
