import { mergeDelta, wholeMessage } from "#shared/chat-delta.ts";
import { factsOfPlatform, parseAnswer, type RunFacts } from "./run-facts.ts";

/**
 * A model's call to a function that the caller defined. `arguments` is the text that the model wrote, which may be
 * invalid JSON.
 */
export interface ToolCall {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
}

export type AssistantMessage = {
  role: "assistant";
  content: string | null;
  refusal?: string;
  tool_calls?: ToolCall[];
};

/** A message of the conversation, in OpenAI's format. The system prompt is a setting and is kept separately. */
export type ChatMessage =
  | { role: "user"; content: string }
  | AssistantMessage
  | { role: "tool"; tool_call_id: string; content: string };

/** The body of a chat completion as sent by the playground. */
export interface ChatBody {
  model: string;
  messages: ({ role: "system"; content: string } | ChatMessage)[];
  stream?: true;
  temperature?: number;
  max_completion_tokens?: number;
  tools?: unknown[];
  response_format?:
    | { type: "json_object" }
    | { type: "json_schema"; json_schema: { name: string; schema: Record<string, unknown>; strict: boolean } };
}

/** Returns the tool calls that need a result before the conversation can continue. */
export function openToolCalls(conversation: readonly ChatMessage[]): readonly ToolCall[] {
  const last = conversation.at(-1);
  return last?.role === "assistant" ? (last.tool_calls ?? []) : [];
}

/** A message of a conversation, with the facts shown next to it. */
export interface Entry {
  message: ChatMessage;
  facts?: RunFacts | undefined;
  /** Whether the answer had to be JSON. */
  structured?: boolean | undefined;
  /** Why the answer may be incomplete. */
  note?: string | undefined;
}

const finishes: Record<string, string> = {
  length: "Cut off at the output limit.",
  content_filter: "Ended by the provider’s content filter.",
};

/** Returns a completed answer as an entry of the conversation. */
export function answerEntry({ message, facts, finish }: ChatAnswer, body: ChatBody): Entry {
  return {
    message,
    facts,
    structured: body.response_format !== undefined && message.content !== null,
    note: finish === undefined ? undefined : finishes[finish],
  };
}

/** An answer as far as it has been received. */
export interface ChatAnswer {
  message: AssistantMessage;
  /** Only set for a complete answer. */
  facts?: RunFacts;
  finish?: string;
  /** The gateway's error, if the answer ended early. */
  error?: unknown;
}

/** Assembles an answer from the chunks of its stream. Ignores unknown fields. */
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

/** Reads a non-streamed answer in the same way as a streamed one. @throws Error if the text is not a completion */
export function readWholeAnswer(text: string): ChatAnswer {
  const { choices, platform } = parseAnswer(text);
  const [{ message, finish_reason }] = choices;
  const whole = createChatAnswer();
  whole.take(JSON.stringify({ choices: [{ delta: message, finish_reason }], platform }));
  return whole.answer();
}
