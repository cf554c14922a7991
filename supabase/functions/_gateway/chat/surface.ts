import { z } from "zod";
import { answerCall } from "../answer-call.ts";
import { bodyLimits } from "../body.ts";
import type { Surface } from "../surface.ts";
import { readCompletionUsage } from "../usage.ts";
import { createChatReader } from "./events.ts";
import { type Chat, chatProviderBody, readChat } from "./request.ts";
import { answerWithTools } from "./tool-loop.ts";

const completion = z.looseObject({ choices: z.array(z.unknown()).min(1), usage: z.unknown().optional() });

/** `POST /v1/chat/completions`. */
export const chatSurface: Surface<Chat> = {
  feature: "chat",
  kind: "chat",
  path: "/chat/completions",
  limitBytes: bodyLimits.text,
  read: readChat,
  providerBody: chatProviderBody,
  readAnswer(value, bound) {
    const { success, data } = completion.safeParse(value);
    if (!success) return undefined;
    return { usage: readCompletionUsage(data.usage, bound), outputBytes: JSON.stringify(data.choices).length };
  },
  answer(gateway, call) {
    const { serverTools } = call.asked;
    return serverTools ? answerWithTools(gateway, call, serverTools) : answerCall(gateway, call);
  },
  createReader(chat, { usageBound, runId }) {
    const keepUsageChunk = chat.request.stream_options?.include_usage === true;
    return createChatReader({ keepUsageChunk, usageBound, unnamed: { id: runId, model: chat.model } });
  },
};
