import { describe, expect, test } from "vitest";
import { readChat } from "../chat/request.ts";
import { readResponses } from "../responses/request.ts";
import { wavHeader } from "../speech/wav.ts";
import { createOutputCounter, estimateInput, markOverrun } from "./estimate.ts";

describe("estimateInput", () => {
  test("estimateInput counts one token per four bytes of text, and three tokens per message", () => {
    expect(estimateInput({ texts: ["", "abcd", "éé"], messages: 2 })).toEqual({ input_tokens: 8, output_tokens: 0 });
    expect(estimateInput({ texts: ["abcde"] })).toEqual({ input_tokens: 2, output_tokens: 0 });
  });

  test("estimateInput counts images and audio in tokens, both in the total input and separately", () => {
    expect(estimateInput({ texts: ["abcd"], imageTokens: 85, audioSeconds: 1.5 })).toEqual({
      input_tokens: 113,
      audio_input_tokens: 27,
      image_input_tokens: 85,
      output_tokens: 0,
    });
  });
});

describe("The estimated input of a chat completion request", () => {
  const estimate = (...messages: object[]) => readChat({ model: "m", messages }, 1_000_000).inputEstimate.input_tokens;
  const text = "What is said in this recording?";

  test("a chat's estimated input counts only the text, not the JSON around it", () => {
    expect(estimate({ role: "user", content: "x".repeat(40) })).toBe(13);
    expect(estimate({ role: "user", content: [{ type: "text", text: "x".repeat(40) }] })).toBe(13);
  });

  test("a chat's estimated input includes tool definitions and tool calls", () => {
    const call = { id: "c", type: "function", function: { name: "weather", arguments: "x".repeat(400) } };
    expect(estimate({ role: "assistant", tool_calls: [call] })).toBeGreaterThan(100);
    const tools = [{ type: "function", function: { name: "f", description: "x".repeat(400) } }];
    const messages = [{ role: "user", content: "x" }];
    expect(readChat({ model: "m", messages, tools }, 900).inputEstimate.input_tokens).toBeGreaterThan(100);
  });

  // 150 KiB at 16 kHz are 4.8 s. Gemini counts 32 tokens per second: https://ai.google.dev/gemini-api/docs/audio
  test("estimates a recording's tokens to within a factor of two, and bases the reservation on its duration, not its size in bytes", () => {
    const header = Buffer.from(wavHeader(153_556));
    header.writeUInt32LE(16_000, 24);
    header.writeUInt32LE(32_000, 28);
    const data = Buffer.concat([header, Buffer.alloc(153_556)]).toString("base64");
    const content = [
      { type: "text", text },
      { type: "input_audio", input_audio: { data, format: "wav" } },
    ];
    const body = { model: "m", messages: [{ role: "user", content }], max_tokens: 100 };
    const bytes = JSON.stringify(body).length;
    const { inputEstimate, inputBytes, audio, audioSeconds } = readChat(body, bytes);
    expect(inputEstimate).toEqual({ input_tokens: 98, audio_input_tokens: 87, output_tokens: 0 });
    expect([inputBytes, audio, audioSeconds]).toEqual([bytes - data.length, true, 5]);
  });
});

test("estimates the input of a Responses API request from its text and images", () => {
  const image = { type: "input_image", image_url: "https://example.com/a.png", detail: "low" };
  const input = [{ role: "user", content: [{ type: "input_text", text: "x".repeat(40) }, image] }];
  expect(readResponses({ model: "m", instructions: "abcd", input }, 500).inputEstimate).toEqual({
    input_tokens: 99,
    image_input_tokens: 85,
    output_tokens: 0,
  });
  expect(readResponses({ model: "m", input: "abcd" }, 500).inputEstimate.input_tokens).toBe(4);
});

describe("createOutputCounter", () => {
  const bytes = (...events: string[]) => {
    const count = createOutputCounter(/"content"\s*:\s*"/g);
    return events.map((event) => count(event)).at(-1);
  };

  test("the output counter counts the UTF-8 bytes of every output string, after decoding its escapes", () => {
    expect(bytes('{"content":"ab","other":"cd"}', '{"content" : "\\n\\u00e9\\ud83e\\udd8a"}')).toBe(9);
    expect(bytes('{"content":"é🦊"}')).toBe(6);
  });

  test("the output counter counts nothing for an unclosed string or a value that is not a string", () => {
    expect(bytes('{"content":"abc')).toBe(0);
    expect(bytes('{"content":[{"token":"abc"}]}')).toBe(0);
  });
});

test("markOverrun marks an estimate that is more than twice the combined output limits of all choices", () => {
  const limits = { outputLimit: 10, choices: 2 };
  expect(markOverrun({}, 40, limits)).toEqual({});
  expect(markOverrun({}, 41, limits)).toEqual({ marks: ["above_output_limit"] });
});
