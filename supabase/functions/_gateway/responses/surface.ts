import { answerCall } from "../answers/answer-call.ts";
import { bodyLimits } from "../http/body.ts";
import type { Surface } from "../surface.ts";
import { answerWithTools } from "../tools/tool-loop.ts";
import { responsesFormat } from "./answer.ts";
import { replayResponse } from "./replay.ts";
import { type Responses, readResponses, responsesProviderRequest } from "./request.ts";
import { responsesTools } from "./tool-dialect.ts";

/** `POST /v1/responses`, stateless. */
export const responsesSurface: Surface<Responses> = {
  feature: "responses",
  kind: "chat",
  endpoint: "responses",
  limitBytes: bodyLimits.text,
  read: readResponses,
  request: responsesProviderRequest,
  replayStream: replayResponse,
  answer(gateway, call) {
    const { serverTools } = call.asked;
    return serverTools
      ? answerWithTools(gateway, call, { serverTools, dialect: responsesTools })
      : answerCall(gateway, call, responsesFormat);
  },
};
