import { runLimitHeaders } from "../admission/rate-limits.ts";
import { askWhole, endWhole, settleFailure } from "../answers/answer-call.ts";
import { platformHeaders } from "../answers/platform-headers.ts";
import type { AdmittedCall } from "../call.ts";
import type { Gateway } from "../gateway.ts";
import { bodyLimits } from "../http/body.ts";
import { GatewayError } from "../http/errors.ts";
import type { Platform } from "../runs/run.ts";
import type { Surface } from "../surface.ts";
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
    const held = call.asked.input.length * heldBytesPerCharacter;
    try {
      if (heldBytes > 0 && heldBytes + held > maxHeldBytes) {
        throw new GatewayError("service_unavailable", { headers: { "retry-after": "5" } });
      }
      heldBytes += held;
      return await speak(gateway, call).finally(() => {
        heldBytes -= held;
      });
    } catch (error) {
      throw settleFailure(error, call);
    }
  },
};

async function speak(gateway: Gateway, call: AdmittedCall<Speech>): Promise<Response> {
  const { inputEstimate } = call.asked;
  const { answer, read: spoken } = await askWhole(gateway, call, (whole) =>
    readGeminiSpeech(whole, { inputEstimate, usageLimits: call.usageLimits }),
  );
  return speechResponse(call, spoken, endWhole(call, answer, { use: spoken.use }));
}

function speechResponse(
  { asked, open }: AdmittedCall<Speech>,
  { pcm, bytes }: SpokenAnswer,
  platform: Platform,
): Response {
  const isWav = asked.format === "wav";
  const parts = (isWav ? [wavHeader(bytes), ...pcm] : pcm) as BlobPart[];
  return new Response(new Blob(parts), {
    headers: {
      ...runLimitHeaders(open.run, platform.usage),
      ...platformHeaders(platform),
      "content-type": isWav ? "audio/wav" : "audio/pcm;rate=24000",
      "content-disposition": `attachment; filename="speech.${asked.format}"`,
    },
  });
}
