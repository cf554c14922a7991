import { z } from "zod";
import { readCompletionUsage } from "../runs/usage.ts";
import type { AnswerFormat } from "../surface.ts";
import { createResponsesReader } from "./events.ts";
import type { Responses } from "./request.ts";
import { saidInResponse } from "./said.ts";

/** A response, as far as it is read here. */
export const response = z.looseObject({
  output: z.array(z.unknown()),
  status: z.string().optional(),
  usage: z.unknown().optional(),
});

/** How responses are read, whole or streamed. */
export const responsesFormat: AnswerFormat<Responses> = {
  readAnswer(value, bound) {
    const { success, data } = response.safeParse(value);
    if (!success) return undefined;
    const usage = readCompletionUsage(data.usage, bound);
    return {
      usage,
      outputBytes: usage ? 0 : JSON.stringify(data.output).length,
      said: () => saidInResponse(value),
      failed: data.status === "failed" || data.status === "cancelled",
    };
  },
  createReader: createResponsesReader,
};
