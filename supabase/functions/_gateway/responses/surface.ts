import { z } from "zod";
import { answerCall } from "../answer-call.ts";
import { bodyLimits } from "../body.ts";
import type { AnswerFormat, Surface } from "../surface.ts";
import { readResponseUsage } from "../usage.ts";
import { createResponsesReader } from "./events.ts";
import { replayResponse } from "./replay.ts";
import { type Responses, readResponses, responsesProviderRequest } from "./request.ts";
import { saidInResponse } from "./said.ts";

const response = z.looseObject({
  output: z.array(z.unknown()),
  status: z.string().optional(),
  usage: z.unknown().optional(),
});

const format: AnswerFormat<Responses> = {
  readAnswer(value, bound) {
    const { success, data } = response.safeParse(value);
    if (!success) return undefined;
    return {
      usage: readResponseUsage(data.usage, bound),
      outputBytes: JSON.stringify(data.output).length,
      said: saidInResponse(value),
      failed: data.status === "failed" || data.status === "cancelled",
    };
  },
  createReader: createResponsesReader,
};

/** `POST /v1/responses`, stateless. */
export const responsesSurface: Surface<Responses> = {
  feature: "responses",
  kind: "chat",
  limitBytes: bodyLimits.text,
  read: readResponses,
  request: responsesProviderRequest,
  replayStream: replayResponse,
  answer: (gateway, call) => answerCall(gateway, call, format),
};
