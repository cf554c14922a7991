import { describe, expect, test } from "vitest";
import { maxCharacters, maxTexts, readContent, type StoredContent } from "./content-texts.ts";

const nothing: StoredContent = { prompt: null, tools: null, answer: null };
const readPrompt = (prompt: unknown) => readContent({ ...nothing, prompt: JSON.stringify(prompt) }).prompt;
const answered = (answer: unknown) => readContent({ ...nothing, answer: JSON.stringify(answer) }).answer;
const briefly = (texts: ReturnType<typeof readPrompt>) => texts.map(({ who, text }) => [who, text]);

describe("a run's content", () => {
  test("a run's chat is read message by message", () => {
    const call = { id: "1", type: "function", function: { name: "weather", arguments: '{"city":"Oslo"}' } };
    const texts = readPrompt({
      model: "demo-chat",
      messages: [
        { role: "system", content: "Be brief." },
        {
          role: "user",
          name: "ada",
          content: [
            { type: "text", text: "What is this?" },
            { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
            { type: "image_url", image_url: { url: "https://example.com/a.png" } },
            { type: "input_audio", input_audio: { format: "wav", data: "AAAA" } },
          ],
        },
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", content: "rain" },
      ],
    });
    expect(briefly(texts)).toEqual([
      ["system", "Be brief."],
      ["user (ada)", "What is this?"],
      ["user (ada)", "[image: image/png, in the request]"],
      ["user (ada)", "[image: https://example.com/a.png]"],
      ["user (ada)", "[audio: wav]"],
      ["assistant calls weather", '{\n  "city": "Oslo"\n}'],
      ["tool", "rain"],
    ]);
    expect(texts[5]?.code).toBe(true);
    const choices = [{ message: { role: "assistant", content: "A cat." } }, { message: { refusal: "No." } }];
    expect(briefly(answered({ choices }))).toEqual([
      ["assistant", "A cat."],
      ["assistant refuses", "No."],
    ]);
  });

  test("the content of Responses API runs, legacy completions, embeddings and speech is read", () => {
    const input = [
      { role: "user", content: [{ type: "input_text", text: "Hello" }] },
      { type: "function_call", name: "weather", arguments: "{}" },
      { type: "function_call_output", output: "rain" },
    ];
    expect(briefly(readPrompt({ instructions: "Be brief.", input }))).toEqual([
      ["instructions", "Be brief."],
      ["user", "Hello"],
      ["assistant calls weather", "{}"],
      ["tool", "rain"],
    ]);
    const message = { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hi" }] };
    const reasoning = { type: "reasoning", summary: [{ type: "summary_text", text: "Greeting" }] };
    expect(briefly(answered({ output: [reasoning, message] }))).toEqual([
      ["reasoning", "Greeting"],
      ["assistant", "Hi"],
    ]);
    expect(briefly(readPrompt({ system: "S", prompt: "P" }))).toEqual([
      ["system", "S"],
      ["user", "P"],
    ]);
    expect(briefly(answered({ output: "O", usage: {} }))).toEqual([["assistant", "O"]]);
    expect(briefly(readPrompt({ input: ["a", "b"] }))).toEqual([
      ["input", "a"],
      ["input", "b"],
    ]);
    expect(briefly(answered({ data: [{ embedding: [0.1] }] }))).toEqual([["answer", "1 embedding"]]);
  });

  test("a run's content lists each tool call followed by its result", () => {
    const tools = JSON.stringify([{ name: "calculator", arguments: '{"expression":"6*7"}', result: "42" }]);
    expect(briefly(readContent({ ...nothing, tools }).tools)).toEqual([
      ["call of calculator", '{\n  "expression": "6*7"\n}'],
      ["result of calculator", "42"],
    ]);
  });

  test("a run's content in an unknown format is shown unchanged", () => {
    expect(readContent({ prompt: "not JSON <script>", tools: "[", answer: null })).toEqual({
      prompt: [{ who: "request", text: "not JSON <script>", code: true, leftOut: 0 }],
      tools: [{ who: "tools", text: "[", code: true, leftOut: 0 }],
      answer: [],
    });
    for (const odd of [null, 1, "text", [], { messages: {} }, { messages: [null, 7, { role: 1 }] }, { input: [[]] }]) {
      expect(readPrompt(odd)).toHaveLength(1);
    }
    const deep = `${"[".repeat(50_000)}${"]".repeat(50_000)}`;
    expect(readContent({ ...nothing, prompt: deep }).prompt[0]?.text.length).toBe(maxCharacters);
  });

  test("truncates a run's content that is too long for a page, and counts the characters left out", () => {
    const of = (length: number) => readPrompt({ prompt: "x".repeat(length) })[0];
    expect(of(maxCharacters)).toMatchObject({ leftOut: 0 });
    expect(of(maxCharacters + 1)).toMatchObject({ leftOut: 1 });
    expect(of(maxCharacters + 1)?.text).toHaveLength(maxCharacters);
    const messages = Array.from({ length: maxTexts + 1 }, () => ({ role: "user", content: "x" }));
    expect(readPrompt({ messages })).toHaveLength(maxTexts);
  });
});
