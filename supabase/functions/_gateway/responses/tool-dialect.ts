import { z } from "zod";
import type { ToolDialect, Turn } from "../tools/tool-loop.ts";
import { addUsage, responseUsageNames } from "../usage/total-usage.ts";
import { responsesFormat } from "./answer.ts";
import type { Responses } from "./request.ts";
import { type Conversation, createStepReader } from "./tool-events.ts";

const functionCall = z.looseObject({
  type: z.literal("function_call"),
  call_id: z.string(),
  name: z.string(),
  arguments: z.string(),
});
const response = z.looseObject({ output: z.array(z.looseObject({ type: z.string() })) });
type Item = z.infer<typeof response>["output"][number];

/** Responses with server tools. */
export const responsesTools: ToolDialect<Responses> = {
  format: responsesFormat,
  stepRequest(asked, { first, last, added }) {
    const { tool_choice, input, ...request } = asked.request;
    // `tool_choice` applies once; on the last step, tools are disabled.
    const choice = last ? "none" : first ? tool_choice : undefined;
    const items = typeof input === "string" ? [{ type: "message", role: "user", content: input }] : input;
    return {
      ...asked,
      request: {
        ...request,
        input: added.length > 0 ? [...items, ...added] : input,
        ...(choice === undefined ? {} : { tool_choice: choice }),
      },
    };
  },
  readTurn,
  toolResult: ({ id }, content) => ({ type: "function_call_output", call_id: id, output: content }),
  wholeAnswer(last, { answers, usage }) {
    const output = [...answers.flatMap(shownItems), ...itemsOf(last)];
    return { ...last, output, usage: addUsage(last.usage, usage, responseUsageNames) };
  },
  createReaders() {
    const conversation: Conversation = { nextIndex: 0, nextSequence: 0, shown: [] };
    let ended: (() => unknown) | undefined;
    return (step) => {
      if (ended) conversation.shown.push(...shownItems(ended()));
      const { response: own, ...reader } = createStepReader({ ...step, conversation });
      ended = own;
      return { ...reader, turn: () => readTurn(own()) };
    };
  },
};

function readTurn(answer: unknown): Turn {
  const items = itemsOf(answer);
  const toolCalls = items.flatMap((item) => {
    const { data } = functionCall.safeParse(item);
    return data ? [{ id: data.call_id, name: data.name, arguments: data.arguments }] : [];
  });
  return { said: items.flatMap(asInput), toolCalls };
}

/** Items without the marks of a provider that would look them up, where nothing is stored. */
function asInput({ id, status, ...item }: Item): object[] {
  const known = item.type === "message" || item.type === "function_call";
  return known || (item.type === "reasoning" && item.encrypted_content) ? [item] : [];
}

/** What the client sees of a step that others follow: all but the calls of our tools. */
function shownItems(answer: unknown): Item[] {
  return itemsOf(answer).filter(({ type }) => type !== "function_call");
}

function itemsOf(answer: unknown): Item[] {
  return response.safeParse(answer).data?.output ?? [];
}
