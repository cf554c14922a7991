import type { FieldErrors } from "./chat-form.ts";
import type { Entry } from "./chat-message.ts";
import type { Failure } from "./failure.ts";
import type { RunFacts } from "./run-facts.ts";

interface FormState {
  typed: Record<string, string>;
  errors: FieldErrors;
  failure: Failure | null;
}

/** The result of a posted chat form: the whole conversation, including the posted message. */
export interface ChatFormState extends FormState {
  kind: "chat";
  entries: Entry[];
}

export interface Sound {
  /** An object URL, or the audio itself as a data URL. */
  src: string;
  /** The URL of the original audio, set if it differs from the audio that plays. */
  download?: string;
  format: "wav" | "pcm";
  facts: RunFacts;
}

export interface SpeechFormState extends FormState {
  kind: "speech";
  sound: Sound | null;
}

export interface Embedded {
  texts: string[];
  vectors: number[][];
  facts: RunFacts;
}

export interface EmbeddingsFormState extends FormState {
  kind: "embeddings";
  embedded: Embedded | null;
}

export type FormAnswer = ChatFormState | SpeechFormState | EmbeddingsFormState;
