import { expect, test } from "vitest";
import type { ProviderAnswer } from "../providers/provider-answer.ts";
import { readGeminiSpeech } from "./gemini-answer.ts";

const inputEstimate = { input_tokens: 10, output_tokens: 0 };
const usageLimits = { outputLimit: 100, choices: 1 };
/** One second of silence, in base64. */
const data = Buffer.alloc(48_000).toString("base64");

/** Returns the counts for one second of speech, given the usage that the provider states. */
async function countsOf(usageMetadata: object) {
  const inlineData = { mimeType: "audio/L16;codec=pcm;rate=24000", data };
  const answer = new TextEncoder().encode(
    JSON.stringify({ candidates: [{ content: { parts: [{ inlineData }] } }], usageMetadata }),
  );
  const pieces = [answer];
  const read = async () => pieces.shift();
  return (
    await readGeminiSpeech({ route: { position: 1 }, read } as unknown as ProviderAnswer, {
      inputEstimate,
      usageLimits,
    })
  ).use;
}

test("counts Gemini's speech tokens as the provider reports them", async () => {
  expect(await countsOf({ promptTokenCount: 5, candidatesTokenCount: 30 })).toMatchObject({
    basis: "final",
    usage: { input_tokens: 5, output_tokens: 30 },
  });
});

test("estimates speech tokens from the audio's length if the provider counts only the input", async () => {
  const usage = { input_tokens: 5, output_tokens: 25, audio_output_tokens: 25 };
  for (const uncounted of [{}, { candidatesTokenCount: null }, { candidatesTokenCount: 0 }]) {
    expect(await countsOf({ promptTokenCount: 5, ...uncounted })).toMatchObject({ basis: "guess", usage });
  }
  expect(await countsOf({})).toMatchObject({ basis: "guess", usage: { ...usage, input_tokens: 10 } });
});
