import type { FieldErrors } from "./chat-form.ts";
import type { EmbeddingsBody, SpeechBody } from "./request-code.ts";

/** The gateway's limit. */
export const maxSpeechCharacters = 10_000;
/** About a minute of speech, as much as a page without JavaScript can embed. */
export const maxPlainSpeechCharacters = 1_000;
export const maxEmbeddedTexts = 20;

export function readSpeechForm(
  form: FormData,
  { maxCharacters = maxSpeechCharacters } = {},
): { body: SpeechBody } | { errors: FieldErrors } {
  const input = textOf(form, "input").trim();
  const length = [...input].length;
  const errors: FieldErrors = {
    ...(textOf(form, "model") === "" ? { model: "Choose a model." } : {}),
    ...(length === 0 ? { input: "Enter the text to speak." } : {}),
    ...(length > maxCharacters ? { input: `Write at most ${maxCharacters} characters; these are ${length}.` } : {}),
  };
  return Object.keys(errors).length > 0 ? { errors } : { body: draftSpeech(form) };
}

/** Returns the request in the form's current state, to be shown as code. */
export function draftSpeech(form: FormData): SpeechBody {
  return {
    model: textOf(form, "model"),
    input: textOf(form, "input").trim() || "Hello",
    voice: textOf(form, "voice"),
    response_format: textOf(form, "format") === "pcm" ? "pcm" : "wav",
  };
}

/** Reads the embeddings form, which has one text per line. */
export function readEmbeddingsForm(form: FormData): { body: EmbeddingsBody } | { errors: FieldErrors } {
  const texts = linesOf(form);
  const errors: FieldErrors = {
    ...(textOf(form, "model") === "" ? { model: "Choose a model." } : {}),
    ...(texts.length === 0 ? { input: "Write at least one line." } : {}),
    ...(texts.length > maxEmbeddedTexts ? { input: `Write at most ${maxEmbeddedTexts} lines.` } : {}),
  };
  return Object.keys(errors).length > 0 ? { errors } : { body: draftEmbeddings(form) };
}

/** Returns the request in the form's current state, to be shown as code. */
export function draftEmbeddings(form: FormData): EmbeddingsBody {
  const texts = linesOf(form);
  return { model: textOf(form, "model"), input: texts.length > 0 ? texts : ["Hello"] };
}

function linesOf(form: FormData): string[] {
  return textOf(form, "input")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

function textOf(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === "string" ? value.replaceAll("\r\n", "\n") : "";
}
