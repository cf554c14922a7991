import type { Behaviour } from "./behaviours.ts";
import { lastPrompt } from "./chat-request.ts";
import { calledBy, complete, type FinishReason } from "./completion.ts";
import type { MessageUse } from "./messages-bill.ts";
import { type MessagesRequest, type PromptRequest, toChatRequest } from "./messages-request.ts";
import type { CacheUse, PromptCache } from "./prompt-cache.ts";
import { countTokens, inputTokens } from "./usage.ts";

/** A content block of an answer. `text` is the part that is streamed in pieces. */
export type AnswerBlock = { block: Record<string, unknown>; member?: "text" | "thinking" | "input"; text: string };
/** An answer's complete content and usage. `before` is the usage before any search. */
export type MessageAnswer = {
  id: string;
  model: string;
  blocks: AnswerBlock[];
  stop: string;
  before: MessageUse;
  use: MessageUse;
  thinking: number;
};

const thought = "The demo provider thinks before it answers.";
/** The number of input tokens that a search's results add. */
const tokensOfSearch = 500;

const stops: Record<FinishReason, string> = {
  stop: "end_turn",
  length: "max_tokens",
  tool_calls: "tool_use",
  content_filter: "refusal",
};

/** Returns the input tokens of a prompt, whether they are cached or not. */
export function promptTokens(request: PromptRequest): number {
  return inputTokens(toChatRequest(request));
}

/** Computes the answer to a request of the Messages API. */
export function answerMessage(
  request: MessagesRequest,
  { behaviour, cache }: { behaviour: Behaviour; cache: PromptCache },
): MessageAnswer {
  const { thinking, tools = [] } = request;
  const chat = toChatRequest(request);
  const completion = complete(chat, { ...behaviour, reasoning: false });
  const [choice] = completion.choices;
  const thinks = behaviour.reasoning || (thinking !== undefined && thinking.type !== "disabled");
  const prompt = lastPrompt(chat);
  const search = tools.find(({ type }) => type?.startsWith("web_search_"));
  const requestedSearches = Number(/search (\d+)/.exec(prompt)?.[1] ?? 0);
  const searches = search ? Math.min(requestedSearches, search.max_uses ?? requestedSearches) : 0;
  const blocks = [
    ...(thinks
      ? [{ block: { type: "thinking", signature: "ZGVtbw==" }, member: "thinking" as const, text: thought }]
      : []),
    ...Array.from({ length: searches }, (_, index) => searchBlocks(completion.id, index)).flat(),
    ...(request.max_tokens === 0 ? [] : [answerBlock(choice)]),
  ];
  const before = inputUse(promptTokens(request), cache.use(request));
  const use = {
    ...before,
    uncached: before.uncached + searches * tokensOfSearch,
    output: countTokens(blocks.map(({ text }) => text).join("")),
    searches,
  };
  return {
    id: completion.id.replace("chatcmpl", "msg"),
    model: request.model,
    blocks,
    stop: prompt.includes("[[pause]]") ? "pause_turn" : stops[choice?.finish ?? "stop"],
    before,
    use,
    thinking: thinks ? countTokens(thought) : 0,
  };
}

function inputUse(tokens: number, { read, write5m, write1h, prefix }: CacheUse): MessageUse {
  const uncached = Math.max(tokens - prefix, 0);
  return { uncached, cacheRead: read, cacheWrite5m: write5m, cacheWrite1h: write1h, output: 0, searches: 0 };
}

type Choice = ReturnType<typeof complete>["choices"][number] | undefined;

function answerBlock(choice: Choice): AnswerBlock {
  if (!choice?.toolCall) return { block: { type: "text" }, member: "text", text: choice?.text ?? "" };
  const { name, arguments: input = "{}" } = calledBy(choice.toolCall);
  const id = choice.toolCall.id.replace("call", "toolu");
  return { block: { type: "tool_use", id, name }, member: "input", text: input };
}

function searchBlocks(answer: string, index: number): AnswerBlock[] {
  const id = `srvtoolu_${index}_${answer}`;
  const result = {
    type: "web_search_result",
    url: "https://example.test/",
    title: "An example",
    encrypted_content: "ZGVtbw==",
    page_age: null,
  };
  return [
    { block: { type: "server_tool_use", id, name: "web_search" }, member: "input", text: '{"query":"demo"}' },
    { block: { type: "web_search_tool_result", tool_use_id: id, content: [result] }, text: "" },
  ];
}
