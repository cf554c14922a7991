import { describe, expect, test } from "vitest";
import { features, refusals, reportedChecks, requiredChecks } from "./checks.ts";

const exchange = (body: unknown, { status = 200, answer }: { status?: number; answer?: string } = {}) => ({
  path: "/v1/chat/completions",
  body,
  status,
  ...(answer !== undefined && { answer }),
});
const reported = features.map((feature) => ({ name: feature, feature, ok: true }));
const shown = (body: unknown, status = 200) =>
  requiredChecks(reported, { exchanges: [exchange(body, { status })] })
    .filter(({ ok }) => ok)
    .map(({ feature }) => feature);

test("extracts a client program's check reports from the rest of its output", () => {
  const output = [
    '{"level":"info"}',
    '{"check":"chat","feature":"plain","ok":true}',
    "│ a box │",
    '{"ok":false,"error":"e","check":"stream","feature":"stream"}',
    '{"check":"chat","feature":"unknown","ok":true}',
    "{",
  ];
  expect(reportedChecks(output.join("\n"))).toEqual([
    { name: "chat", feature: "plain", ok: true },
    { name: "stream", feature: "stream", ok: false, error: "e" },
  ]);
});

describe("required checks of a client", () => {
  test("requires that a client made a call without streaming", () => {
    expect(shown({ input: "hello", messages: [{ role: "assistant" }] })).toEqual(["plain"]);
  });

  test("the streaming check passes only if the client made a streaming call", () => {
    expect(shown({ stream: true })).toEqual(["stream"]);
    expect(shown({ stream: false })).toEqual(["plain"]);
  });

  test("requires that a client returned a tool result to Chat Completions or Responses", () => {
    expect(shown({ messages: [{ role: "user" }, { role: "tool" }] })).toEqual(["plain", "tools"]);
    expect(shown({ input: [{ role: "user" }, { type: "function_call_output" }] })).toEqual(["plain", "tools"]);
  });

  test("the tools check passes if the client returned a custom tool's result", () => {
    expect(shown({ input: [{ type: "custom_tool_call_output" }] })).toEqual(["plain", "tools"]);
  });

  test("requires that a client returned a tool's result to the Messages API", () => {
    const content = [{ type: "tool_result", tool_use_id: "t", content: "42" }];
    expect(shown({ messages: [{ role: "user", content }] })).toEqual(["plain", "tools"]);
    expect(shown({ messages: [{ role: "user", content: [{ type: "text", text: "tool_result" }] }] })).toEqual([
      "plain",
    ]);
  });

  test("requires that a client requested structured output from Chat Completions or Responses", () => {
    expect(shown({ response_format: { type: "json_schema" } })).toEqual(["plain", "structured"]);
    expect(shown({ text: { format: { type: "json_schema" } } })).toEqual(["plain", "structured"]);
    expect(shown({ output_config: { format: { type: "json_schema" } } })).toEqual(["plain", "structured"]);
    expect(shown({ response_format: { type: "text" }, text: {} })).toEqual(["plain"]);
  });

  test("a client's checks count a call only if its response was successful", () => {
    expect(shown({ stream: true, messages: [{ role: "tool" }] }, 400)).toEqual([]);
  });

  test("fails the check of a feature that the client supports but did not report", () => {
    const exchanges = [exchange({}), exchange({ stream: true })];
    const lacks = ["tools", "structured"] as const;
    const checks = requiredChecks([{ name: "chat", feature: "plain", ok: true }], { exchanges, lacks });
    expect(checks.map(({ feature, ok }) => [feature, ok])).toEqual([
      ["plain", true],
      ["stream", false],
    ]);
  });
});

test("lists each reason for a refusal only once, with the request body that was refused", () => {
  const refused = (message: string) => ({ status: 400, answer: JSON.stringify({ error: { message, param: "name" } }) });
  expect(
    refusals([
      exchange({ n: 1 }),
      exchange({ n: 2 }, refused("Unknown field: name")),
      exchange({ n: 3 }, refused("Unknown field: name")),
      exchange({ n: 4 }, { status: 502, answer: "<html>" }),
    ]),
  ).toEqual([
    '400 /v1/chat/completions: Unknown field: name (name)\n{"n":2}',
    '502 /v1/chat/completions: <html>\n{"n":4}',
  ]);
});
