import { answerCall } from "../answers/answer-call.ts";
import { bodyLimits } from "../http/body.ts";
import type { Surface } from "../surface.ts";
import { answerWithTools } from "../tools/tool-loop.ts";
import { chatFormat } from "./answer.ts";
import { chatProviderRequest } from "./provider-request.ts";
import { replayChat } from "./replay.ts";
import { type Chat, readChat } from "./request.ts";
import { chatTools } from "./tool-dialect.ts";

/** `POST /v1/chat/completions`. */
export const chatSurface: Surface<Chat> = {
  feature: "chat",
  kind: "chat",
  endpoint: "chat",
  limitBytes: bodyLimits.text,
  read: readChat,
  request: chatProviderRequest,
  replayStream: replayChat,
  answer(gateway, call) {
    const { serverTools } = call.asked;
    return serverTools
      ? answerWithTools(gateway, call, { serverTools, dialect: chatTools })
      : answerCall(gateway, call, chatFormat);
  },
};
