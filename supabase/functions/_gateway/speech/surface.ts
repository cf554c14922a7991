import { requestWholeAnswer, settleFailure, settleWholeAnswer } from "../answers/answer-call.ts";
import { platformHeaders } from "../answers/platform-headers.ts";
import type { Gateway } from "../calls/gateway.ts";
import type { AdmittedCall, Surface } from "../calls/surface.ts";
import { runLimitHeaders } from "../database/rate-limits.ts";
import { bodyLimits } from "../http/body.ts";
import { overloadError } from "../http/errors.ts";
import type { Platform } from "../runs/run.ts";
import { readGeminiSpeech, type SpokenAnswer } from "./gemini-answer.ts";
import { readSpeech, type Speech, speechProviderRequest } from "./request.ts";
import { wavHeader } from "./wav.ts";

/**
 * The memory that concurrent answers may use in an isolate, in total. Each answer's use is estimated from its text.
 * Supabase ends an isolate that exceeds 256 MB.
 */
const maxHeldBytes = 96 * 1024 * 1024;
const heldBytesPerCharacter = 4_000;
let heldBytes = 0;

/** `POST /v1/audio/speech`. */
export const speechSurface: Surface<Speech> = {
  feature: "speech",
  kind: "speech",
  endpoint: "speech",
  limitBytes: bodyLimits.speech,
  beginsWithAnswer: true,
  read: readSpeech,
  request: speechProviderRequest,
  async answer(gateway, call) {
    const estimatedBytes = call.request.input.length * heldBytesPerCharacter;
    try {
      if (heldBytes > 0 && heldBytes + estimatedBytes > maxHeldBytes) throw overloadError();
      heldBytes += estimatedBytes;
      return await speak(gateway, call).finally(() => {
        heldBytes -= estimatedBytes;
      });
    } catch (error) {
      throw settleFailure(error, call);
    }
  },
};

async function speak(gateway: Gateway, call: AdmittedCall<Speech>): Promise<Response> {
  const { inputEstimate } = call.request;
  const { answer, read: speech } = await requestWholeAnswer(gateway, call, (whole) =>
    readGeminiSpeech(whole, { inputEstimate, usageLimits: call.usageLimits }),
  );
  return speechResponse(call, speech, settleWholeAnswer(call, answer, { use: speech.use }));
}

function speechResponse(
  { request, open }: AdmittedCall<Speech>,
  { pcm, bytes }: SpokenAnswer,
  platform: Platform,
): Response {
  const isWav = request.format === "wav";
  const parts = (isWav ? [wavHeader(bytes), ...pcm] : pcm) as BlobPart[];
  return new Response(new Blob(parts), {
    headers: {
      ...runLimitHeaders(open.run, platform.usage),
      ...platformHeaders(platform),
      "content-type": isWav ? "audio/wav" : "audio/pcm;rate=24000",
      "content-disposition": `attachment; filename="speech.${request.format}"`,
    },
  });
}
