import { describe, expect, test } from "vitest";
import { type AnswerIdentity, createStepReader } from "./tool-events.ts";

const encoder = new TextEncoder();
const chunk = (delta: object, finish_reason: string | null = null) =>
  event({
    id: "c2",
    object: "chat.completion.chunk",
    created: 2,
    model: "m",
    choices: [{ index: 0, delta, finish_reason }],
  });
const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
const call = (part: object) => chunk({ tool_calls: [{ index: 0, ...part }] });
const calls = [
  chunk({
    role: "assistant",
    content: null,
    tool_calls: [{ index: 0, id: "t", function: { name: "calculator", arguments: "" } }],
  }),
  call({ function: { arguments: '{"expression"' } }),
  call({ function: { arguments: ':"1"}' } }),
];
const usage = event({ id: "c2", choices: [], usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 } });
const done = "data: [DONE]\n\n";

function scan(stream: string[], options: Partial<Parameters<typeof createStepReader>[0]> = {}) {
  const name: AnswerIdentity = { created: 0, model: "asked" };
  const reader = createStepReader({
    name,
    first: true,
    last: false,
    wantsUsage: false,
    earlier: {},
    usageLimits: { contextWindow: 100, outputLimit: 100, choices: 1 },
    ...options,
  });
  const passed = reader.push(encoder.encode(stream.join("")));
  const events = Buffer.concat(passed)
    .toString()
    .split("\n\n")
    .filter(Boolean)
    .map((each) => JSON.parse(each.slice("data: ".length)));
  return { reader, deltas: events.map(({ choices }) => choices[0]), events };
}

describe("A step that calls tools", () => {
  test("in a step that calls tools, the client sees the role and text, but not the tool calls or the end of the answer", () => {
    const { reader, deltas } = scan([
      chunk({ role: "assistant", content: "" }),
      chunk({ content: "Let me see. " }),
      ...calls.slice(1),
      chunk({}, "tool_calls"),
      usage,
      done,
    ]);
    expect(deltas.map(({ delta, finish_reason }) => [delta, finish_reason])).toEqual([
      [{ role: "assistant", content: "" }, null],
      [{ content: "Let me see. " }, null],
    ]);
    expect(reader.facts).toMatchObject({
      done: true,
      usage: { counts: { input_tokens: 3, output_tokens: 2 } },
      usageIsFinal: true,
    });
  });

  // Azure's asynchronous content filter sends choices without a delta
  // (https://github.com/openai/openai-python/issues/1677). MiniMax's last chunk has `message` instead.
  test.each([{ content_filter_offsets: { check_offset: 9 } }, { delta: null }, { message: { content: "x" } }])(
    "accepts a choice without a delta: %j",
    (choice) => {
      const { reader } = scan([
        ...calls,
        event({ id: "", choices: [{ index: 0, finish_reason: null, ...choice }] }),
        chunk({}, "tool_calls"),
        usage,
        done,
      ]);
      expect(reader.facts).toMatchObject({ done: true, failed: false, usageIsFinal: true });
      expect(reader.turn().toolCalls).toEqual([{ id: "t", name: "calculator", arguments: '{"expression":"1"}' }]);
    },
  );

  test("returns a step's tool calls, however many pieces they arrive in", () => {
    const { reader } = scan([...calls, chunk({}, "tool_calls"), done]);
    expect(reader.turn()).toMatchObject({
      output: [{ role: "assistant", content: null }],
      toolCalls: [{ id: "t", name: "calculator", arguments: '{"expression":"1"}' }],
    });
  });

  // Ollama sends both calls at index 0 (https://github.com/ollama/ollama/issues/15457), here without `finish_reason`.
  test("reads two tool calls with the same index as separate calls", () => {
    const bare = (id: string) => {
      const tool_calls = [{ index: 0, id, type: "function", function: { name: "calculator", arguments: "{}" } }];
      return event({ id: "c2", choices: [{ index: 0, delta: { tool_calls } }] });
    };
    const { reader } = scan([bare("a"), bare("b"), chunk({}, "tool_calls"), done]);
    expect(reader.turn().toolCalls.map(({ id }) => id)).toEqual(["a", "b"]);
  });

  test("a step that calls tools returns the model's message to the provider unchanged", () => {
    const extra_content = { google: { thought_signature: "c2ln" } };
    const { reader } = scan([
      chunk({ role: "assistant", content: null, reasoning_content: "thin" }),
      chunk({ reasoning_content: "king" }),
      call({ id: "t", type: "function", function: { name: "calculator", arguments: "{}" }, extra_content }),
      chunk({}, "tool_calls"),
      done,
    ]);
    const tool_calls = [
      { id: "t", type: "function", function: { name: "calculator", arguments: "{}" }, extra_content },
    ];
    expect(reader.turn().output).toEqual([
      { role: "assistant", content: null, reasoning_content: "thinking", tool_calls },
    ]);
  });

  test("a tool loop hides tool calls and the finish reason before its last step, even if the finish reason is not tool_calls", () => {
    const { deltas, reader } = scan([...calls, chunk({}, "stop"), done]);
    expect(deltas).toEqual([expect.objectContaining({ delta: { role: "assistant", content: null } })]);
    expect(reader.turn().toolCalls).toHaveLength(1);
  });

  test.for([200_000_000, 2 ** 53 - 1])("reads a tool call with the index %i in less than a second", (index) => {
    const { reader } = scan([
      chunk({ tool_calls: [{ index, id: "far", function: { name: "clock" } }] }),
      ...calls,
      done,
    ]);
    const began = performance.now();
    expect(reader.turn().toolCalls.map(({ id }) => id)).toEqual(["far", "t"]);
    expect(performance.now() - began).toBeLessThan(1_000);
  });

  // The request of the last step has tool_choice "none", which Ollama and others ignore
  // (https://github.com/ollama/ollama/issues/17921).
  test.for([
    ["in a chunk of their own", [...calls, chunk({}, "tool_calls")], "stop"],
    [
      "in the chunk that ends",
      [chunk({ role: "assistant", tool_calls: [{ index: 0, id: "t" }] }, "tool_calls")],
      "stop",
    ],
    ["after text", [chunk({ content: "Let me see." }), ...calls.slice(1), chunk({}, "stop")], "stop"],
    ["cut off", [...calls, chunk({}, "length")], "length"],
  ] as [string, string[], string][])(
    "the last step of a tool loop hides tool calls %s, and ends the answer",
    ([, stream, finish]) => {
      const { deltas } = scan([...stream, usage, done], { last: true });
      expect(JSON.stringify(deltas)).not.toContain("tool_calls");
      expect(deltas.flatMap(({ finish_reason }) => finish_reason ?? [])).toEqual([finish]);
      expect(deltas[0].delta.role).toBe("assistant");
    },
  );
});

describe("a later step of a conversation with tools", () => {
  const name = { id: "c1", created: 1, model: "m1" };

  test("a later step's events keep the first step's id and model and do not repeat the role", () => {
    const { deltas, events, reader } = scan(
      [chunk({ role: "assistant", content: "" }), chunk({ content: "42" }), chunk({}, "stop"), usage, done],
      { first: false, name: { ...name, opened: true } },
    );
    expect(deltas.map(({ delta, finish_reason }) => [delta, finish_reason])).toEqual([
      [{ content: "42" }, null],
      [{}, "stop"],
    ]);
    for (const each of events) expect(each).toMatchObject({ ...name, object: "chat.completion.chunk" });
    expect(reader.completion({ usage: {} })).toContain('"id":"c1"');
    expect(reader.turn()).toEqual({ output: [{ role: "assistant", content: "42" }], toolCalls: [] });
  });

  // OpenAI's client library refuses an answer without a role.
  test("a later step's first event has the role if the first step sent the client nothing", () => {
    const { deltas } = scan([chunk({ content: "42" }), chunk({ role: "assistant", content: "!" })], {
      first: false,
      name,
    });
    expect(deltas.map(({ delta }) => delta)).toEqual([{ role: "assistant", content: "42" }, { content: "!" }]);
  });

  test("the last event states the usage of all steps", () => {
    const earlier = { input_tokens: 10, output_tokens: 20 };
    const { reader } = scan([chunk({ content: "x" }), usage, done], { first: false, name, earlier });
    const [, data = ""] = reader.completion({ usage: {} }).split(/^data: /m);
    expect(JSON.parse(data).usage).toEqual({ prompt_tokens: 13, completion_tokens: 22, total_tokens: 35 });
  });
});

test.for([event({ error: { message: "secret" } }), "data: {oops\n\n", "<html>\n\n"])(
  "the chat stream reader stops at %j and reports the answer as failed",
  (garbage) => {
    const { reader, events } = scan([chunk({ content: "a" }), garbage, chunk({ content: "b" })]);
    expect(events).toHaveLength(1);
    expect(reader.facts).toMatchObject({ failed: true, events: 1 });
  },
);

test("counts the usage that an error event states", () => {
  const used = { prompt_tokens: 3, completion_tokens: 2 };
  const { reader } = scan([chunk({ content: "a" }), event({ choices: [], usage: used, error: { message: "secret" } })]);
  expect(reader.facts).toMatchObject({
    failed: true,
    usage: { counts: { input_tokens: 3, output_tokens: 2 } },
    usageIsFinal: true,
  });
});
