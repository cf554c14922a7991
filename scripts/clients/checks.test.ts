import { describe, expect, test } from "vitest";
import { refusals, reportedChecks, requiredChecks } from "./checks.ts";

const exchange = (body: unknown, { status = 200, answer }: { status?: number; answer?: string } = {}) => ({
  path: "/v1/chat/completions",
  body,
  status,
  ...(answer !== undefined && { answer }),
});
const passed = (body: unknown, status?: number) =>
  requiredChecks([exchange(body, status ? { status } : {})]).map(({ ok }) => ok);

test("reads a program's reports among what its client prints", () => {
  const output =
    '{"level":"info"}\n{"check":"chat","ok":true}\n│ a box │\n{"ok":false,"error":"e","check":"stream"}\n{';
  expect(reportedChecks(output)).toEqual([
    { name: "chat", ok: true, error: undefined },
    { name: "stream", ok: false, error: "e" },
  ]);
});

describe("a client must have", () => {
  test("returned a tool's result, as chat or as responses have it", () => {
    expect(passed({ messages: [{ role: "user" }, { role: "tool" }] })).toEqual([true, false]);
    expect(passed({ input: [{ role: "user" }, { type: "function_call_output" }] })).toEqual([true, false]);
    expect(passed({ input: "hello", messages: [{ role: "assistant" }] })).toEqual([false, false]);
  });

  test("asked for a stream", () => {
    expect(passed({ stream: true })).toEqual([false, true]);
    expect(passed({ stream: false })).toEqual([false, false]);
  });

  test("had an answer", () => {
    expect(passed({ stream: true, messages: [{ role: "tool" }] }, 400)).toEqual([false, false]);
    expect(requiredChecks([]).map(({ ok }) => ok)).toEqual([false, false]);
  });
});

test("tells each reason of refusals once, with the body", () => {
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
