import type { AssistantMessage, ToolCall } from "./chat-message.ts";
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

interface Delta {
  content?: unknown;
  refusal?: unknown;
  tool_calls?: unknown;
}

/** Puts an answer together from the chunks of its stream. Unknown things in them are passed over. */
export function createChatAnswer(): { take: (data: string) => void; answer: () => ChatAnswer } {
  let text = "";
  let refusal = "";
  const calls: ToolCall[] = [];
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
    if (choice?.delta) takeDelta(choice.delta);
  }

  function takeDelta({ content, refusal: refused, tool_calls: parts }: Delta): void {
    if (typeof content === "string") text += content;
    if (typeof refused === "string") refusal += refused;
    for (const [position, part] of Array.isArray(parts) ? parts.entries() : []) {
      const index = Number.isInteger(part?.index) ? part.index : position;
      calls[index] ??= { id: "", type: "function", function: { name: "", arguments: "" } };
      const call = calls[index];
      if (typeof part.id === "string") call.id = part.id;
      if (typeof part.function?.name === "string") call.function.name += part.function.name;
      if (typeof part.function?.arguments === "string") call.function.arguments += part.function.arguments;
    }
  }

  return {
    take,
    answer: () => {
      const toolCalls = calls.filter(Boolean);
      return {
        message: {
          role: "assistant",
          content: text === "" ? null : text,
          ...(refusal ? { refusal } : {}),
          ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
        },
        ...(facts ? { facts } : {}),
        ...(finish ? { finish } : {}),
        ...(error ? { error } : {}),
      };
    },
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
