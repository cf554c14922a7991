import { describe, expect, test } from "vitest";
import { readSpeech, speechProviderRequest } from "./request.ts";

function refusal(body: unknown): { code: string; param?: string } {
  try {
    readSpeech(body);
  } catch (error) {
    const { code, options } = error as { code: string; options: { param?: string } };
    return { code, param: options.param };
  }
  throw new Error("not refused");
}

describe("speech requests", () => {
  test("a speech request can choose its model, voice and format, and the default format is WAV", () => {
    expect(readSpeech({ input: "Grüße" })).toMatchObject({ format: "wav", inputBytes: 7, outputLimit: 120 });
    expect(readSpeech({ input: "a", model: "m", voice: "v", response_format: "pcm" })).toMatchObject({
      model: "m",
      voice: "v",
      format: "pcm",
    });
  });

  test("speech input must have 1 to 10,000 characters, however many bytes they take", () => {
    expect(() => readSpeech({ input: "🦊".repeat(10_000) })).not.toThrow();
    expect(refusal({ input: "a".repeat(10_001) })).toEqual({ code: "invalid_request", param: "input" });
    expect(refusal({ input: "" })).toEqual({ code: "invalid_request", param: "input" });
    expect(refusal({})).toEqual({ code: "invalid_request", param: "input" });
  });

  test.for([
    [{ response_format: "mp3" }, "invalid_request", "response_format"],
    [{ speed: 2 }, "unsupported_parameter", "speed"],
    [{ instructions: "x" }, "unsupported_parameter", "instructions"],
    [{ stream_format: "sse" }, "unsupported_parameter", "stream_format"],
    [{ pitch: 1 }, "invalid_request", "pitch"],
  ] as const)("refuses a speech request with %j", ([fields, code, param]) => {
    expect(refusal({ input: "a", ...fields })).toEqual({ code, param });
  });

  test("speech is requested in Gemini's format", () => {
    const { endpoint, body } = speechProviderRequest(readSpeech({ input: "hello" }), { voice: "Kore" });
    expect(endpoint).toBe("speech");
    expect(JSON.parse(body)).toMatchObject({
      contents: [{ parts: [{ text: "hello" }] }],
      generationConfig: { speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: "Kore" } } } },
    });
  });
});
