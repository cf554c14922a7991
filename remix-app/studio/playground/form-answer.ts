import type { FieldErrors } from "./chat-form.ts";
import type { Entry } from "./chat-message.ts";
import type { Failure } from "./failure.ts";
import type { RunFacts } from "./run-facts.ts";

interface Answered {
  typed: Record<string, string>;
  errors: FieldErrors;
  failure: Failure | null;
}

/** The result of a posted chat form: the whole conversation, including the posted message. */
export interface ChatAnswered extends Answered {
  kind: "chat";
  entries: Entry[];
}

export interface Spoken {
  /** An object URL, or the audio itself as a data URL. */
  src: string;
  /** The URL of the original audio, set if it differs from the audio that plays. */
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
