import { describe, expect, test } from "vitest";
import { draftChat, outputTokens, readChatForm } from "./chat-form.ts";
import type { ChatMessage } from "./chat-message.ts";
import { maxEmbeddedTexts, maxSpeechCharacters, readEmbeddingsForm, readSpeechForm } from "./single-form.ts";

const schema = '{"type":"object"}';

function formOf(fields: Record<string, string>): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.set(name, value);
  return form;
}

const read = (fields: Record<string, string>, conversation: ChatMessage[] = []) =>
  readChatForm(formOf({ model: "m", prompt: "Hi", ...fields }), conversation);
const errorsOf = (fields: Record<string, string>) => {
  const result = read(fields);
  return "errors" in result ? Object.keys(result.errors) : [];
};

const asked: ChatMessage[] = [
  { role: "user", content: "And the weather?" },
  {
    role: "assistant",
    content: null,
    tool_calls: [
      { id: "a", type: "function", function: { name: "weather", arguments: "{}" } },
      { id: "b", type: "function", function: { name: "weather", arguments: "{}" } },
    ],
  },
];

describe("the chat form", () => {
  test("the chat form omits empty settings", () => {
    expect(read({ system: " ", temperature: "", tools: "", format: "text", schema })).toEqual({
      body: { model: "m", messages: [{ role: "user", content: "Hi" }] },
      added: [{ role: "user", content: "Hi" }],
    });
  });

  test("the chat form becomes one request with its settings and the conversation", () => {
    const tools = '[{"type":"function","function":{"name":"f"}}]';
    const earlier: ChatMessage[] = [
      { role: "user", content: "One" },
      { role: "assistant", content: "Two" },
    ];
    const settings = { system: "Be brief.", temperature: "0.5", maxOutputTokens: "9", tools };
    const result = read({ ...settings, format: "json_schema", schema, strict: "on", prompt: "a\r\nb" }, earlier);
    expect(result).toMatchObject({
      body: {
        model: "m",
        messages: [{ role: "system", content: "Be brief." }, ...earlier, { role: "user", content: "a\nb" }],
        temperature: 0.5,
        max_completion_tokens: 9,
        tools: JSON.parse(tools),
        response_format: {
          type: "json_schema",
          json_schema: { name: "answer", schema: { type: "object" }, strict: true },
        },
      },
    });
  });

  test.for([
    [{ temperature: "0" }, []],
    [{ temperature: "2" }, []],
    [{ temperature: "-0.01" }, ["temperature"]],
    [{ temperature: "2.01" }, ["temperature"]],
    [{ temperature: "warm" }, ["temperature"]],
    [{ maxOutputTokens: "1" }, []],
    [{ maxOutputTokens: String(outputTokens.max) }, []],
    [{ maxOutputTokens: "0" }, ["maxOutputTokens"]],
    [{ maxOutputTokens: String(outputTokens.max + 1) }, ["maxOutputTokens"]],
    [{ maxOutputTokens: "1.5" }, ["maxOutputTokens"]],
    [{ tools: "[]" }, ["tools"]],
    [{ tools: "{}" }, ["tools"]],
    [{ tools: "[" }, ["tools"]],
    [{ tools: '["calculator"]' }, []],
    [{ format: "json_schema", schema: "[]" }, ["schema"]],
    [{ format: "json_schema", schema: "null" }, ["schema"]],
    [{ format: "text", schema: "nonsense" }, []],
    [{ model: "", prompt: " " }, ["model", "prompt"]],
  ] as [Record<string, string>, string[]][])("the chat form with %j has errors in %j", ([fields, wrong]) => {
    expect(errorsOf(fields)).toEqual(wrong);
  });

  test("the chat form requires a result for each tool call before it continues", () => {
    expect(read({ result0: "sunny" }, asked)).toEqual({ errors: { result1: "Enter the tool’s result." } });
    expect(read({ result0: "sunny", result1: "dry" }, asked)).toMatchObject({
      added: [
        { role: "tool", tool_call_id: "a", content: "sunny" },
        { role: "tool", tool_call_id: "b", content: "dry" },
      ],
    });
  });

  test("if nothing is typed, the playground's request code contains the last question, or a greeting in a new conversation", () => {
    const empty = formOf({ model: "m", prompt: "", temperature: "x" });
    expect(draftChat(empty, [])).toEqual({ model: "m", messages: [{ role: "user", content: "Hello" }] });
    const answered: ChatMessage[] = [
      { role: "user", content: "One" },
      { role: "assistant", content: "Two" },
    ];
    expect(draftChat(empty, answered).messages).toEqual([{ role: "user", content: "One" }]);
  });
});

describe("the speech and embeddings forms", () => {
  test("the speech and embeddings forms accept exactly what the gateway accepts", () => {
    const speech = (input: string) => readSpeechForm(formOf({ model: "m", voice: "v", format: "wav", input }));
    expect(speech("😀".repeat(maxSpeechCharacters))).toHaveProperty("body.response_format", "wav");
    expect(speech("x".repeat(maxSpeechCharacters + 1))).toHaveProperty("errors.input");
    expect(speech(" ")).toHaveProperty("errors.input");
    const lines = (count: number) => readEmbeddingsForm(formOf({ model: "m", input: "x\r\n\r\n".repeat(count) }));
    expect(lines(maxEmbeddedTexts)).toHaveProperty("body.input.length", maxEmbeddedTexts);
    expect(lines(maxEmbeddedTexts + 1)).toHaveProperty("errors.input");
    expect(lines(0)).toHaveProperty("errors.input");
  });
});
