import type { ToolDialect } from "../tools/tool-loop.ts";
import { addUsage, chatUsageNames } from "../usage/total-usage.ts";
import { chatFormat } from "./answer.ts";
import { createAssembly } from "./assembly.ts";
import { readMessage } from "./message.ts";
import type { Chat } from "./request.ts";
import { type AnswerName, createStepReader } from "./tool-events.ts";

/** Chats with server tools. */
export const chatTools: ToolDialect<Chat> = {
  format: chatFormat,
  stepRequest(asked, { first, last, added }) {
    const { tool_choice, ...request } = asked.request;
    // `tool_choice` applies once; on the last step, tools are disabled.
    const choice = last ? "none" : first ? tool_choice : undefined;
    const messages = [...request.messages, ...added];
    return { ...asked, request: { ...request, messages, ...(choice === undefined ? {} : { tool_choice: choice }) } };
  },
  readTurn: readMessage,
  toolResult: ({ id }, content) => ({ role: "tool", tool_call_id: id, content }),
  wholeAnswer: (last, { usage }) => ({ ...last, usage: addUsage(last.usage, usage, chatUsageNames) }),
  createReaders({ asked, model, open }) {
    const name: AnswerName = { created: 0, model };
    const assembly = asked.keepsSchema || open.run.capture ? createAssembly() : undefined;
    const usageAsked = asked.request.stream_options?.include_usage === true;
    return (step) => createStepReader({ ...step, name, assembly, usageAsked });
  },
};
