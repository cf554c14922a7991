import { z } from "zod";
import type { AnswerFormat } from "../surface.ts";
import { readTier } from "../usage/read-usage.ts";
import { createResponsesReader, readResponseUsage } from "./events.ts";
import type { Responses } from "./request.ts";
import { saidInResponse } from "./said.ts";

/** A response, as far as it is read here. */
export const response = z.looseObject({
  output: z.array(z.unknown()),
  status: z.string().optional(),
  usage: z.unknown().optional(),
});

/** The texts of a whole response that are output. */
const wholeTexts = /"(?:text|refusal|arguments|input)"\s*:\s*"/g;

/** How responses are read, whole or streamed. */
export const responsesFormat: AnswerFormat<Responses> = {
  readAnswer(value, limits) {
    const { success, data } = response.safeParse(value);
    if (!success) return undefined;
    return {
      usage: readResponseUsage(data, limits),
      servedTier: readTier(data),
      output: wholeTexts,
      said: () => saidInResponse(value),
      failed: data.status === "failed" || data.status === "cancelled",
    };
  },
  createReader: createResponsesReader,
};
