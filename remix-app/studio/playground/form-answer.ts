import type { FieldErrors } from "./chat-form.ts";
import type { Entry } from "./chat-message.ts";
import type { Failure } from "./failure.ts";
import type { RunFacts } from "./run-facts.ts";

interface Answered {
  typed: Record<string, string>;
  errors: FieldErrors;
  failure: Failure | null;
}

/** What a posted form of the chat is answered with: all that was said, its own part included. */
export interface ChatAnswered extends Answered {
  kind: "chat";
  entries: Entry[];
}

export interface Spoken {
  /** Of the browser's memory, or the sound itself as a data URL. */
  src: string;
  /** Where the sound as it came is another than what plays. */
  download?: string;
  format: "wav" | "pcm";
  facts: RunFacts;
}

export interface SpeechAnswered extends Answered {
  kind: "speech";
  spoken: Spoken | null;
}

export interface Embedded {
  texts: string[];
  vectors: number[][];
  facts: RunFacts;
}

export interface EmbeddingsAnswered extends Answered {
  kind: "embeddings";
  embedded: Embedded | null;
}

export type FormAnswer = ChatAnswered | SpeechAnswered | EmbeddingsAnswered;
