import { createHash } from "node:crypto";
import type { Behaviour } from "./behaviours.ts";
import { type ChatRequest, type ChatTool, lastPrompt, textOf } from "./chat-request.ts";
import { sampleOf } from "./schema-sample.ts";
import { countTokens, inputTokens, type Usage } from "./usage.ts";

export type ToolCall = { id: string; namespace?: string; extra_content?: unknown } & (
  | { type: "function"; function: { name: string; arguments: string } }
  | { type: "custom"; custom: { name: string; input: string } }
);
export type FinishReason = "stop" | "length" | "tool_calls" | "content_filter";
export type Choice = { text: string; reasoning?: string; toolCall?: ToolCall; finish: FinishReason };
/** The complete content of a chat response, whether it is streamed or not. */
export type Completion = { id: string; created: number; model: string; choices: Choice[]; usage: Usage };

const reasoningTokens = 64;
const reasoning = "The demo provider thinks before it answers.";
/** A thought signature as in Gemini's OpenAI compatibility: https://ai.google.dev/gemini-api/docs/thought-signatures */
const thoughtSignature = { google: { thought_signature: "ZGVtbw==" } };

/** Computes the response to a chat. The response depends only on the request, and says that it is a demo. */
export function complete(request: ChatRequest, behaviour: Behaviour): Completion {
  const choices = Array.from({ length: request.n ?? 1 }, (_, index) => choose(request, behaviour, index));
  const input = inputTokens(request);
  const thought = behaviour.reasoning ? reasoningTokens : 0;
  return {
    id: `chatcmpl-demo-${fingerprint(request)}`,
    created: Math.floor(Date.now() / 1000),
    model: request.model,
    choices,
    usage: {
      input,
      cachedInput: behaviour.cachedInput ? Math.floor(input / 2) : 0,
      output: outputTokens(choices) + thought,
      reasoning: thought,
    },
  };
}

/** Counts the output tokens of the choices written so far. */
function outputTokens(choices: readonly Choice[]): number {
  return choices.reduce(
    (sum, { text, toolCall }) => sum + countTokens(text) + (toolCall ? callTokens(toolCall) : 0),
    0,
  );
}

function callTokens(toolCall: ToolCall): number {
  return countTokens(JSON.stringify(calledBy(toolCall)));
}

/** Returns the name and the input of a tool call. */
export function calledBy(call: ToolCall): { name: string; arguments?: string; input?: string } {
  return call.type === "function" ? call.function : call.custom;
}

function choose(request: ChatRequest, behaviour: Behaviour, index: number): Choice {
  const choice = answer(request, behaviour, index);
  if (!behaviour.reasoning) return choice;
  const { toolCall } = choice;
  return { ...choice, reasoning, ...(toolCall && { toolCall: { ...toolCall, extra_content: thoughtSignature } }) };
}

function answer(request: ChatRequest, behaviour: Behaviour, index: number): Choice {
  const limit = request.max_completion_tokens ?? request.max_tokens ?? Number.POSITIVE_INFINITY;
  const toolCall = chooseTool(request, behaviour, index);
  if (toolCall) return toolChoice(toolCall, limit);
  const fullText = answerText(request, behaviour, index);
  const stopped = beforeStop(fullText, request.stop);
  if (countTokens(stopped) > limit) return { text: firstTokens(stopped, limit), finish: "length" };
  return { text: stopped, finish: behaviour.finish ?? "stop" };
}

function answerText(request: ChatRequest, behaviour: Behaviour, index: number): string {
  const format = request.response_format;
  if (format?.type === "json_schema")
    return JSON.stringify(
      behaviour.breaksSchema ? { demo: "not what was asked for" } : sampleOf(format.json_schema?.schema),
    );
  if (format?.type === "json_object") return JSON.stringify({ demo: true, prompt: lastPrompt(request) });
  if (behaviour.words !== undefined)
    return Array.from({ length: behaviour.words }, (_, word) => (word === 0 ? "[demo]" : `word${word}`)).join(" ");
  const last = request.messages.at(-1);
  const subject = last?.role === "tool" ? `The tool answered: ${textOf(last)}` : `You said: ${lastPrompt(request)}`;
  return `[demo] This answer comes from the local demo provider, not from a model.${index > 0 ? ` Choice ${index}.` : ""} ${subject}`;
}

/**
 * Returns a tool call if `tool_choice` requires one or names a tool, if the prompt says `call <name>` (with `{"…"}` for
 * a function's arguments, or the rest of the prompt for a custom tool's input), or if the demo model calls tools
 * regardless of the prompt. After a tool's result, returns another call only if `tool_choice` names a tool, the prompt
 * asks for more calls, or the model is stubborn.
 */
function chooseTool(request: ChatRequest, behaviour: Behaviour, index: number): ToolCall | undefined {
  const { tools, tool_choice: choice, messages } = request;
  if (!tools || tools.length === 0 || (choice === "none" && !behaviour.stubborn)) return undefined;
  const prompt = lastPrompt(request);
  const named = typeof choice === "object" ? (choice?.function ?? choice?.custom)?.name : undefined;
  const requestedTool = tools.find((candidate) => new RegExp(`call ${nameOf(candidate)}(?![\\w-])`).test(prompt));
  const results = messages.filter(({ role }) => role === "tool").length;
  const isAnswered = messages.at(-1)?.role === "tool" && results >= (behaviour.calls ?? 1) && !behaviour.stubborn;
  const eager = choice === "required" || behaviour.callsTools ? tools[0] : undefined;
  const tool =
    tools.find((candidate) => nameOf(candidate) === named) ?? (isAnswered ? undefined : (requestedTool ?? eager));
  if (!tool) return undefined;
  const id = `call_demo_${fingerprint({ request, index })}`;
  const base = tool.namespace === undefined ? { id } : { id, namespace: tool.namespace };
  const name = nameOf(tool);
  if (tool.type === "custom") {
    const input = prompt.match(new RegExp(`call ${name} with ([^]*)`))?.[1] ?? "demo";
    return { ...base, type: "custom", custom: { name, input } };
  }
  const { parameters } = tool.function;
  const requestedArguments = prompt.match(new RegExp(`call ${name} with (\\{[^}]*\\})`))?.[1];
  const sample = () => JSON.stringify(sampleOf(parameters ?? { type: "object" }));
  return { ...base, type: "function", function: { name, arguments: requestedArguments ?? sample() } };
}

function nameOf(tool: ChatTool): string {
  return tool.type === "function" ? tool.function.name : tool.custom.name;
}

function beforeStop(text: string, stop: ChatRequest["stop"]): string {
  const marks = typeof stop === "string" ? [stop] : (stop ?? []);
  const ends = marks.map((mark) => text.indexOf(mark)).filter((at) => at >= 0);
  return ends.length > 0 ? text.slice(0, Math.min(...ends)) : text;
}

/** Returns a tool call as far as the output limit allows. Like a real model, it may stop within the arguments. */
function toolChoice(toolCall: ToolCall, limit: number): Choice {
  if (callTokens(toolCall) <= limit) return { text: "", toolCall, finish: "tool_calls" };
  const { arguments: args, input = "" } = calledBy(toolCall);
  const text = args ?? input;
  const cutAt = (length: number) => withInput(toolCall, text.slice(0, length));
  let [fits, tooLong] = [-1, text.length];
  while (tooLong - fits > 1) {
    const length = Math.floor((fits + tooLong) / 2);
    if (callTokens(cutAt(length)) <= limit) fits = length;
    else tooLong = length;
  }
  return { text: "", ...(fits < 0 ? {} : { toolCall: cutAt(fits) }), finish: "length" };
}

function withInput(call: ToolCall, input: string): ToolCall {
  return call.type === "function"
    ? { ...call, function: { ...call.function, arguments: input } }
    : { ...call, custom: { ...call.custom, input } };
}

function firstTokens(text: string, tokens: number): string {
  // Streaming mode leaves out the bytes of a character that is cut.
  return new TextDecoder().decode(Buffer.from(text).subarray(0, tokens * 4), { stream: true });
}

function fingerprint(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, 24);
}
