import { z } from "zod";
import type { ProviderAnswer } from "../providers/provider-answer.ts";
import { createInvalidAnswerFailure } from "../providers/provider-failure.ts";
import { readGeminiUsage } from "../usage/read-usage.ts";
import type { CallUse } from "../usage/usage.ts";
import { type CallCounts, createCallUse, type UsageLimits } from "../usage/usage.ts";
import { createAudioSplitter, type SplitAnswer } from "./json-audio.ts";

/** The format of all speech: 24 kHz, mono, 16 bits per sample. */
export const pcmFormat = { sampleRate: 24_000, bytesPerSample: 2, channels: 1 } as const;
const bytesPerSecond = pcmFormat.sampleRate * pcmFormat.bytesPerSample * pcmFormat.channels;
/** Maximum size of the audio. Gemini's output limit keeps real audio smaller. */
const maxAudioBytes = 48 * 1024 * 1024;
/** Gemini's number of tokens for one second of speech. */
const tokensPerSecond = 25;

const answerShape = z.looseObject({
  candidates: z
    .array(
      z.looseObject({
        content: z.looseObject({
          parts: z.array(z.looseObject({ inlineData: z.looseObject({ mimeType: z.string() }).optional() })),
        }),
      }),
    )
    .min(1),
});
const usageShape = z.looseObject({ usageMetadata: z.unknown().optional() });

/** Speech as raw PCM, and its usage. */
export type SpokenAnswer = { pcm: Uint8Array[]; bytes: number; use: CallUse };

/**
 * Reads Gemini's speech.
 * @throws ProviderFailure if the answer isn't speech. The provider may still have charged for it.
 */
export async function readGeminiSpeech(
  answer: ProviderAnswer,
  { inputEstimate, usageLimits }: { inputEstimate: CallCounts; usageLimits: UsageLimits },
): Promise<SpokenAnswer> {
  const route = answer.route.position;
  const { rest, audio, audioBytes } = await splitAudio(answer);
  const value = parseOrReject(rest);
  const stated = readGeminiUsage(usageShape.safeParse(value).data?.usageMetadata, usageLimits);
  const use = stated && createCallUse(stated.usage, { route, basis: "final" as const });
  if (!isSpeech(value) || audioBytes === 0 || audioBytes % pcmFormat.bytesPerSample !== 0)
    throw createInvalidAnswerFailure(use);
  // If the provider states no token count for the speech, estimates the count from the length of the audio.
  if (use && stated?.countsSpeech) return { pcm: audio, bytes: audioBytes, use };
  const usage = guessUsage(stated?.usage.counts ?? inputEstimate, audioBytes);
  return { pcm: audio, bytes: audioBytes, use: { route, usage, basis: "guess" } };
}

async function splitAudio(answer: ProviderAnswer): Promise<SplitAnswer> {
  const splitter = createAudioSplitter({ maxAudioBytes });
  for (let bytes = await answer.read(); bytes; bytes = await answer.read()) {
    try {
      splitter.push(bytes);
    } catch {
      answer.cancel();
      throw createInvalidAnswerFailure();
    }
  }
  return splitter.end();
}

/** Returns whether every part has the only supported speech format. */
function isSpeech(value: unknown): boolean {
  const { success, data } = answerShape.safeParse(value);
  const parts = success ? (data.candidates[0]?.content.parts ?? []) : [];
  const types = parts.flatMap(({ inlineData }) => inlineData?.mimeType.toLowerCase() ?? []);
  return (
    types.length > 0 &&
    types.every((type) => type.startsWith("audio/l16") && type.includes(`rate=${pcmFormat.sampleRate}`))
  );
}

function guessUsage(input: CallCounts, audioBytes: number): CallCounts {
  const tokens = Math.ceil((audioBytes / bytesPerSecond) * tokensPerSecond);
  return { ...input, output_tokens: tokens, audio_output_tokens: tokens };
}

function parseOrReject(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw createInvalidAnswerFailure();
  }
}
