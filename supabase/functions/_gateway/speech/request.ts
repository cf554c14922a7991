import { z } from "zod";
import type { ProviderTarget } from "../calls/surface.ts";
import { parseBody, type RefusedFields } from "../http/parse-body.ts";
import type { ProviderRequest } from "../providers/provider.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";
import { countCharacters, modelName } from "../requests/text-fields.ts";
import { estimateInput } from "../usage/estimate.ts";

const maxCharacters = 10_000;
/**
 * One second of Gemini's speech has 25 tokens and at least six characters, so a character needs at most about four
 * tokens.
 */
const reservedTokensPerCharacter = 4;
const minReservedTokens = 100;

/** The body of `POST /v1/audio/speech`. */
export const speechSchema = z.strictObject({
  model: modelName.optional(),
  input: z
    .string()
    .min(1)
    .refine((text) => countCharacters(text) <= maxCharacters, {
      message: `may have ${maxCharacters} characters at most`,
    }),
  voice: z.string().min(1).max(64).optional(),
  response_format: z.enum(["wav", "pcm"]).default("wav"),
});

const refusedMembers: RefusedFields = {
  instructions: "Leave it out.",
  speed: "Leave it out.",
  stream_format: "The answer is audio. Leave it out.",
};

/** A parsed speech request, with the values that its maximum cost depends on. */
export type Speech = ParsedRequest & { input: string; format: "wav" | "pcm" };

/**
 * Checks a parsed body.
 * @throws GatewayError `invalid_request` or `unsupported_parameter`, with the field
 */
export function readSpeech(value: unknown): Speech {
  const { model, input, voice, response_format } = parseBody(speechSchema, value, refusedMembers);
  return {
    input,
    format: response_format,
    model,
    voice,
    stream: false,
    inputBytes: new TextEncoder().encode(input).length,
    inputEstimate: estimateInput({ texts: [input] }),
    images: 0,
    audio: false,
    outputLimit: countCharacters(input) * reservedTokensPerCharacter + minReservedTokens,
    sizeFields: { input: "input" },
    choices: 1,
  };
}

/** Builds a request for Gemini, the only kind of provider with a speech endpoint. */
export function speechProviderRequest({ input }: Speech, { voice }: Pick<ProviderTarget, "voice">): ProviderRequest {
  return {
    endpoint: "speech",
    body: JSON.stringify({
      contents: [{ role: "user", parts: [{ text: input }] }],
      generationConfig: {
        responseModalities: ["AUDIO"],
        speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: voice } } },
      },
    }),
  };
}
