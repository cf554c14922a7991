import { z } from "zod";
import { hasError } from "../answers/error-events.ts";
import type { AnswerFormat } from "../surface.ts";
import { readTier } from "../usage/read-usage.ts";
import { createAssembly } from "./assembly.ts";
import { createChatReader, outputTexts } from "./events.ts";
import type { Chat } from "./request.ts";
import { saidInChat } from "./said.ts";
import { correctToolCalls } from "./tool-calls.ts";
import { readChatUsage } from "./usage.ts";

/** A chat completion, as far as it is read here. */
export const completion = z.looseObject({ choices: z.array(z.unknown()).min(1), usage: z.unknown().optional() });

/** How chat completions are read, whole or streamed. */
export const chatFormat = {
  readAnswer(value, limits) {
    const { success, data } = completion.safeParse(value);
    if (!success) return undefined;
    return {
      usage: readChatUsage(data, limits),
      servedTier: readTier(data),
      output: outputTexts,
      // As in a stream. OpenRouter puts a choice next to an error: openrouter.ai/docs/api-reference/errors
      failed: hasError(data),
      corrected: correctToolCalls(data.choices),
      said: () => saidInChat(value),
    };
  },
  createReader({ asked, model, open, usageLimits }) {
    const usageAsked = asked.request.stream_options?.include_usage === true;
    const assembly = asked.keepsSchema || open.run.capture ? createAssembly() : undefined;
    const unnamed = { id: open.run.run_id, model };
    return createChatReader({ usageAsked, usageLimits, choices: asked.choices, assembly, unnamed });
  },
} satisfies AnswerFormat<Chat>;
