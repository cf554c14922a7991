import { z } from "zod";
import { requestWholeAnswer, settleFailure, settleWholeAnswer, wholeResponse } from "../answers/answer-call.ts";
import { platformHeaders } from "../answers/platform-headers.ts";
import { readWholeAnswer } from "../answers/whole-answer.ts";
import type { Surface } from "../calls/surface.ts";
import { chatProviderRequest } from "../chat/provider-request.ts";
import type { Chat } from "../chat/request.ts";
import { chatFormat } from "../chat/surface.ts";
import { bodyLimits } from "../http/body.ts";
import { parseBody } from "../http/parse-body.ts";
import { modelName, outputLimits } from "../requests/text-fields.ts";
import { estimateInput } from "../usage/estimate.ts";

/** The request and response bodies of the legacy adapter. */
export const generateSchema = z.strictObject({
  prompt: z.string().min(1),
  model: modelName.optional(),
  system: z.string().optional(),
});
const tokens = z.number().int();
export const generatedAnswer = z.object({
  output: z.string(),
  usage: z.object({ inputTokens: tokens, outputTokens: tokens, totalTokens: tokens }),
  finishReason: z.string(),
});
const completion = z.looseObject({
  choices: z.array(
    z.looseObject({
      message: z.looseObject({ content: z.string().nullish() }),
      finish_reason: z.string().nullish(),
    }),
  ),
});

/** The legacy adapter `{ prompt, model?, system? }` → `{ output, usage, finishReason }`. It runs as a chat. */
export const generateSurface: Surface<Chat> = {
  feature: "generate",
  kind: "chat",
  endpoint: "chat",
  limitBytes: bodyLimits.text,
  read(value, bodyBytes) {
    const { prompt, model, system } = parseBody(generateSchema, value);
    const messages = [...(system ? [{ role: "system", content: system }] : []), { role: "user", content: prompt }];
    return {
      body: { model: model ?? "", messages },
      model,
      stream: false,
      outputLimit: outputLimits.default,
      outputLimitAssumed: true,
      sizeFields: { input: "prompt" },
      choices: 1,
      images: 0,
      audio: false,
      inputBytes: bodyBytes,
      inputEstimate: estimateInput({ texts: messages.map(({ content }) => content), messages: messages.length }),
    };
  },
  request: chatProviderRequest,
  async answer(gateway, call) {
    try {
      const { answer, read } = await requestWholeAnswer(gateway, call, (whole) =>
        readWholeAnswer(whole, call, chatFormat),
      );
      const { value, use } = read;
      const { input_tokens = 0, output_tokens = 0 } = use.usage;
      const choice = completion.safeParse(value).data?.choices[0];
      const text = JSON.stringify({
        output: choice?.message.content ?? "",
        usage: { inputTokens: input_tokens, outputTokens: output_tokens, totalTokens: input_tokens + output_tokens },
        finishReason: choice?.finish_reason ?? "stop",
      } satisfies z.output<typeof generatedAnswer>);
      const platform = settleWholeAnswer(call, answer, { use, answer: { text: () => text } });
      return wholeResponse(call, { text, platform, headers: platformHeaders(platform) });
    } catch (error) {
      throw settleFailure(error, call);
    }
  },
};
