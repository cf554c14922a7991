import { z } from "zod";
import { bodyLimits } from "../body.ts";
import type { Surface } from "../surface.ts";
import { readResponseUsage } from "../usage.ts";
import { createResponsesReader } from "./events.ts";
import { type Responses, readResponses, responsesProviderBody } from "./request.ts";

const response = z.looseObject({
  output: z.array(z.unknown()),
  status: z.string().optional(),
  usage: z.unknown().optional(),
});

/** `POST /v1/responses`, stateless. */
export const responsesSurface: Surface<Responses> = {
  feature: "responses",
  kind: "chat",
  path: "/responses",
  limitBytes: bodyLimits.text,
  read: readResponses,
  providerBody: responsesProviderBody,
  readAnswer(value, bound) {
    const { success, data } = response.safeParse(value);
    if (!success) return undefined;
    return {
      usage: readResponseUsage(data.usage, bound),
      outputBytes: JSON.stringify(data.output).length,
      failed: data.status === "failed" || data.status === "cancelled",
    };
  },
  createReader: (_, { usageBound }) => createResponsesReader({ usageBound }),
};
