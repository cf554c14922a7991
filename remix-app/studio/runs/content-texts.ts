import { z } from "zod";

/** A message or other text from a run's content, as plain text. */
export interface ContentText {
  /** The text's author, such as `user`, or the kind of text, such as `instructions`. */
  who: string;
  text: string;
  /** True for data, which is shown in a monospaced font. False for prose. */
  code: boolean;
  /** The number of characters left out because the text is too long for a page. */
  leftOut: number;
}

/** A run's stored content as JSON text, each part null if it was not stored. */
export interface StoredContent {
  prompt: string | null;
  tools: string | null;
  answer: string | null;
}

/** The limits of a page: characters per text, and number of texts. */
export const maxCharacters = 100_000;
export const maxTexts = 500;

const looseRecord = z.looseObject({});
type LooseRecord = z.output<typeof looseRecord>;

/** Returns the prompt, the tool calls and the answer. Text that is not in a known JSON format is returned unchanged. */
export function readContent({ prompt, tools, answer }: StoredContent): Record<keyof StoredContent, ContentText[]> {
  return {
    prompt: readTexts(prompt, { otherwise: "request", of: promptTexts }),
    tools: readTexts(tools, { otherwise: "tools", of: toolTexts }),
    answer: readTexts(answer, { otherwise: "answer", of: answerTexts }),
  };
}

/** Returns a stored prompt, which is the request's body, as JSON. Returns null for anything else. */
export function readRequestBody(prompt: string | null): Record<string, unknown> | null {
  const body = looseRecord.safeParse(prompt === null ? undefined : tryParseJson(prompt));
  return body.success ? body.data : null;
}

function readTexts(
  text: string | null,
  { otherwise, of }: { otherwise: string; of: (value: unknown) => ContentText[] },
): ContentText[] {
  if (text === null) return [];
  const value = tryParseJson(text);
  const texts = value === undefined ? [] : of(value);
  return (texts.length > 0 ? texts : [dataEntry(otherwise, text)]).slice(0, maxTexts);
}

function promptTexts(value: unknown): ContentText[] {
  const { messages, instructions, input, system, prompt } = objectOf(value);
  return [
    ...(typeof system === "string" ? [textEntry("system", system)] : []),
    ...(typeof instructions === "string" ? [textEntry("instructions", instructions)] : []),
    ...(typeof prompt === "string" ? [textEntry("user", prompt)] : []),
    ...listOf(messages).flatMap(messageTexts),
    ...(typeof input === "string" ? [textEntry("input", input)] : listOf(input).flatMap(itemTexts)),
  ];
}

function answerTexts(value: unknown): ContentText[] {
  const { choices, output, data: embeddings } = objectOf(value);
  if (typeof output === "string") return [textEntry("assistant", output)];
  const vectors = listOf(embeddings).filter((entry) => "embedding" in objectOf(entry)).length;
  return [
    ...listOf(choices).flatMap((choice) => messageTexts({ role: "assistant", ...objectOf(objectOf(choice).message) })),
    ...listOf(output).flatMap(itemTexts),
    ...(vectors > 0 ? [textEntry("answer", `${vectors} embedding${vectors === 1 ? "" : "s"}`)] : []),
  ];
}

function toolTexts(value: unknown): ContentText[] {
  return listOf(value).flatMap((use) => {
    const { name, arguments: callArguments, result } = objectOf(use);
    return [
      dataEntry(`call of ${nameOf(name)}`, textOf(callArguments)),
      dataEntry(`result of ${nameOf(name)}`, textOf(result)),
    ];
  });
}

function messageTexts(value: unknown): ContentText[] {
  const { role, name, content, refusal, tool_calls } = objectOf(value);
  const who = typeof name === "string" ? `${nameOf(role)} (${name})` : nameOf(role);
  return [
    ...contentTexts(who, content),
    ...(typeof refusal === "string" ? [textEntry(`${who} refuses`, refusal)] : []),
    ...listOf(tool_calls).map((call) => {
      const { name: tool, arguments: callArguments } = objectOf(objectOf(call).function);
      return dataEntry(`${who} calls ${nameOf(tool)}`, textOf(callArguments));
    }),
  ];
}

/** Returns the texts of an item of the responses API, or of a plain string in a list of items. */
function itemTexts(value: unknown): ContentText[] {
  if (typeof value === "string") return [textEntry("input", value)];
  const { type, role, name, content, arguments: callArguments, output, summary } = objectOf(value);
  if (type === "function_call") return [dataEntry(`assistant calls ${nameOf(name)}`, textOf(callArguments))];
  if (type === "function_call_output") return contentTexts("tool", output);
  if (type === "reasoning") return contentTexts("reasoning", summary);
  return contentTexts(nameOf(role), content);
}

function contentTexts(who: string, content: unknown): ContentText[] {
  if (typeof content === "string") return content === "" ? [] : [textEntry(who, content)];
  return listOf(content).map((part) => {
    const { type, text, refusal, image_url, input_audio } = objectOf(part);
    if (typeof text === "string") return textEntry(who, text);
    if (typeof refusal === "string") return textEntry(`${who} refuses`, refusal);
    if (image_url !== undefined) return textEntry(who, `[image: ${sourceOf(objectOf(image_url).url ?? image_url)}]`);
    if (input_audio !== undefined) return textEntry(who, `[audio: ${nameOf(objectOf(input_audio).format)}]`);
    return dataEntry(`${who}, ${nameOf(type)}`, textOf(part));
  });
}

/** Returns an image's URL, or the media type of an embedded image. */
function sourceOf(url: unknown): string {
  const text = textOf(url);
  return text.startsWith("data:") ? `${/^data:([^;,]{0,100})/.exec(text)?.[1]}, in the request` : text;
}

function textEntry(who: string, text: string): ContentText {
  const leftOut = Math.max(0, text.length - maxCharacters);
  return { who, text: leftOut > 0 ? text.slice(0, maxCharacters) : text, code: false, leftOut };
}

/** Formats JSON with one line per member, and returns anything else unchanged. */
function dataEntry(who: string, text: string): ContentText {
  const value = tryParseJson(text);
  return { ...textEntry(who, typeof value === "object" ? (pretty(value) ?? text) : text), code: true };
}

function pretty(value: unknown): string | undefined {
  try {
    return JSON.stringify(value, null, 2);
  } catch {
    // The nesting is deeper than the stack allows.
    return undefined;
  }
}

function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function objectOf(value: unknown): LooseRecord {
  return looseRecord.safeParse(value).data ?? {};
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : (pretty(value) ?? "");
}

function nameOf(value: unknown): string {
  return typeof value === "string" && value !== "" ? value : "unnamed";
}
