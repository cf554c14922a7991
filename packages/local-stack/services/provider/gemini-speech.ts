import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import { z } from "zod";
import { giveAnswer } from "./answering.ts";
import { type Behaviour, behaviourOf } from "./behaviours.ts";
import { sampleRate, tone } from "./speech.ts";
import type { TruthLog } from "./truth-log.ts";
import { countTokens, noUsage, type Usage } from "./usage.ts";

/** The number of tokens that Gemini counts for a second of speech. */
const tokensPerSecond = 25;

/** The body of `POST /v1beta/models/{model}:generateContent` for speech. */
const speechRequest = z.looseObject({
  contents: z.array(z.looseObject({ parts: z.array(z.looseObject({ text: z.string() })).min(1) })).min(1),
  generationConfig: z.looseObject({
    responseModalities: z.tuple([z.literal("AUDIO")]),
    speechConfig: z.looseObject({
      voiceConfig: z.looseObject({ prebuiltVoiceConfig: z.looseObject({ voiceName: z.string().min(1) }) }),
    }),
  }),
});

const statuses = { 400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED" };

/** Formats a failure in Gemini's shape. */
export function geminiFailure(code: number): Response {
  const status = statuses[code as keyof typeof statuses] ?? "INTERNAL";
  return Response.json({ error: { code, message: "The demo refuses this.", status } }, { status: code });
}

/**
 * Serves speech in Gemini's wire format. The model `demo-speech/demo-cut` fails midway, like the chat model `demo-cut`.
 */
export function geminiSpeechRoute(log: TruthLog) {
  return async (c: Context<{ Bindings: HttpBindings }>): Promise<Response> => {
    const model = decodeURIComponent(c.req.path.split("/models/")[1] ?? "").replace(/:generateContent$/, "");
    const parsed = speechRequest.safeParse(await c.req.json().catch(() => undefined));
    if (!parsed.success) return geminiFailure(400);
    const behaviour = behaviourOf(model.split("/").at(-1) ?? "");
    if (!behaviour) return geminiFailure(404);
    const requestId = c.req.header("x-request-id") ?? null;
    const truth = log.begin({ requestId, path: c.req.path, model, stream: false });
    if (typeof behaviour.failure === "number") {
      truth.endedAt = new Date().toISOString();
      truth.status = behaviour.failure;
      return geminiFailure(behaviour.failure);
    }
    const { contents, generationConfig } = parsed.data;
    const input = contents.flatMap(({ parts }) => parts.map(({ text }) => text)).join("");
    const voice = generationConfig.speechConfig.voiceConfig.prebuiltVoiceConfig.voiceName;
    return giveAnswer(c.env.outgoing, {
      behaviour,
      truth,
      answer() {
        const pcm = tone({ input, voice });
        const output = Math.ceil((pcm.length / 2 / sampleRate) * tokensPerSecond);
        const usage = { ...noUsage, input: countTokens(input), output };
        return { body: speechBody({ model, pcm, usage, behaviour }), usage };
      },
    });
  };
}

function speechBody(answer: { model: string; pcm: Buffer; usage: Usage; behaviour: Behaviour }) {
  const { model, pcm, behaviour } = answer;
  const { input, output } = behaviour.usage === "zero" ? noUsage : answer.usage;
  const inlineData = { mimeType: `audio/L16;codec=pcm;rate=${sampleRate}`, data: pcm.toString("base64") };
  return {
    candidates: [{ content: { parts: [{ inlineData }], role: "model" }, finishReason: "STOP", index: 0 }],
    ...(behaviour.usage === "none"
      ? {}
      : {
          usageMetadata: {
            promptTokenCount: input,
            candidatesTokenCount: output,
            totalTokenCount: input + output,
            promptTokensDetails: [{ modality: "TEXT", tokenCount: input }],
            candidatesTokensDetails: [{ modality: "AUDIO", tokenCount: output }],
          },
        }),
    modelVersion: model,
    responseId: "demo",
  };
}
