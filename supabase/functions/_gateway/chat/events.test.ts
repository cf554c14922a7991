import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createChatReader } from "./events.ts";

const encoder = new TextEncoder();
const chunk = (rest: object) => ({ id: "c1", object: "chat.completion.chunk", created: 7, model: "m", ...rest });
const event = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`;
const content = (text: string) => event(chunk({ choices: [{ index: 0, delta: { content: text } }] }));
const usageChunk = event(chunk({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } }));
const counts = { input_tokens: 3, output_tokens: 2 };

const limits = { contextWindow: 1_000, outputLimit: 1_000, choices: 1 };

const createReader = ({ wantsUsage = false, usageLimits = limits, choices = 1 } = {}) =>
  createChatReader({ wantsUsage, usageLimits, choices, unnamed: { id: "run", model: "m" } });
const platform = { run_id: "r", usage: { input_tokens: 7, output_tokens: 5 } };

/** Feeds a stream to a reader in the given pieces and joins the output. */
function scan(pieces: Uint8Array[], options: Parameters<typeof createReader>[0] = {}) {
  const scanner = createReader(options);
  const passed = [...pieces.flatMap((piece) => scanner.push(piece)), ...scanner.end()];
  return { text: Buffer.concat(passed).toString("utf8"), facts: scanner.facts };
}

const body = [
  ": keep-alive\n\n",
  content("Grüße 🦊"),
  content('she said "usage":{ and "error" and [DONE]'),
  'data: {"choices":\r\ndata: []}\r\n\r\n',
  content("end"),
];
/** What clients receive: all but the first event, which has no data and would make older SDKs fail. */
const shown = ["", ...body.slice(1)];
const whole = [...body, usageChunk, "data: [DONE]\n\n", content("never")].join("");

describe("the scanner of chat streams", () => {
  test("the scanner passes every byte except the usage chunk and the terminator, wherever the stream is split", () => {
    const bytes = encoder.encode(whole);
    for (let at = 0; at <= bytes.length; at++) {
      const { text, facts } = scan([bytes.slice(0, at), bytes.slice(at)]);
      expect(text, `split at ${at}`).toBe(shown.join(""));
      expect(facts).toMatchObject({ usage: { counts }, usageIsFinal: true, done: true, failed: false });
    }
  });

  test("the scanner returns the same text for pieces of any size, down to single bytes", () => {
    const bytes = encoder.encode(whole);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 97 }), { minLength: 1, maxLength: 60 }), (sizes) => {
        const pieces = [];
        for (let at = 0, n = 0; at < bytes.length; n++) {
          const size = sizes[n % sizes.length] ?? 1;
          pieces.push(bytes.slice(at, at + size));
          at += size;
        }
        expect(scan(pieces).text).toBe(shown.join(""));
      }),
    );
    expect(scan([...bytes].map((byte) => Uint8Array.of(byte))).text).toBe(shown.join(""));
  });

  test("the scanner never holds a complete event back until the next one arrives", () => {
    const scanner = createReader();
    for (const [at, each] of body.entries()) {
      expect(Buffer.concat(scanner.push(encoder.encode(each))).toString()).toBe(shown[at]);
    }
  });

  test("the scanner reads a large event in many pieces without copying it each time", () => {
    const bytes = encoder.encode(content("x".repeat(6 * 1024 * 1024)));
    const pieces = Array.from({ length: Math.ceil(bytes.length / 2_048) }, (_, at) =>
      bytes.slice(at * 2_048, (at + 1) * 2_048),
    );
    const began = performance.now();
    const { text } = scan([encoder.encode(content("first")), ...pieces]);
    expect(performance.now() - began).toBeLessThan(2_000);
    expect(text).toHaveLength(content("first").length + bytes.length);
  });

  test("the scanner returns a chunk of complete events without copying it", () => {
    const scanner = createReader();
    scanner.push(encoder.encode(content("first")));
    const piece = encoder.encode(content("a") + content("b"));
    const [passed] = scanner.push(piece);
    expect(passed?.buffer).toBe(piece.buffer);
  });
});

describe("Usage", () => {
  const stream = (...events: string[]) => scan([encoder.encode(events.join(""))]).facts;

  test("usage is not final if more output follows", () => {
    expect(stream(content("a"), usageChunk)).toMatchObject({ usageIsFinal: true });
    expect(stream(content("a"), usageChunk, content(""))).toMatchObject({ usageIsFinal: true });
    expect(stream(content("a"), usageChunk, content("b"))).toMatchObject({ usage: { counts }, usageIsFinal: false });
  });

  test("ignores a usage of zero in a chat stream's chunk that has content", () => {
    const zeros = { prompt_tokens: 0, completion_tokens: 0 };
    const placeholder = event(chunk({ choices: [{ index: 0, delta: { content: "a" } }], usage: zeros }));
    expect(stream(placeholder, placeholder).usage).toBeUndefined();
    expect(stream(placeholder, usageChunk, placeholder).usage).toEqual({ counts });
  });

  test("usage is taken from the last event that states it", () => {
    const more = event(chunk({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 9 } }));
    expect(stream(usageChunk, more).usage).toMatchObject({ counts: { output_tokens: 9 } });
  });

  test("usage that grows with the content is final only in a chunk without choices", () => {
    const growing = event(chunk({ choices: [{ delta: {} }], usage: { prompt_tokens: 3, completion_tokens: 1 } }));
    expect(stream(content("a"), growing)).toMatchObject({
      usage: { counts: { output_tokens: 1 } },
      usageIsFinal: false,
    });
    expect(scan([encoder.encode(growing)]).text).toBe(event(chunk({ choices: [{ delta: {} }] })));
  });

  test("usage includes cached, reasoning and audio tokens", () => {
    const usage = {
      prompt_tokens: 10,
      completion_tokens: 9,
      prompt_tokens_details: { cached_tokens: 4, audio_tokens: 2 },
      completion_tokens_details: { reasoning_tokens: 5, audio_tokens: 1 },
    };
    expect(stream(event(chunk({ choices: [], usage }))).usage?.counts).toEqual({
      input_tokens: 10,
      cached_input_tokens: 4,
      audio_input_tokens: 2,
      output_tokens: 9,
      reasoning_tokens: 5,
      audio_output_tokens: 1,
    });
  });

  test.for([
    { prompt_tokens: -1, completion_tokens: 0 },
    { prompt_tokens: 1.5, completion_tokens: 0 },
    { prompt_tokens: "seven", completion_tokens: 0 },
    { prompt_tokens: 1e30, completion_tokens: 0 },
    {},
    null,
    [],
  ])("reads no usage from %j", (usage) => {
    expect(stream(content("a"), event(chunk({ choices: [], usage }))).usage).toBeUndefined();
  });

  test("usage above the context window is capped at the window and marked", () => {
    const usageOf = (prompt_tokens: number, completion_tokens: number) => {
      const { usage } = stream(
        content("a"),
        event(chunk({ choices: [], usage: { prompt_tokens, completion_tokens } })),
      );
      return [usage?.counts.input_tokens, usage?.counts.output_tokens, usage?.marks];
    };
    expect(usageOf(1_000, 1_000)).toEqual([1_000, 1_000, undefined]);
    expect(usageOf(1_001, 500)).toEqual([1_000, 500, ["above_context_window"]]);
    expect(usageOf(1_000, 1_001)).toEqual([1_000, 1_000, ["above_output_limit", "above_context_window"]]);
  });

  test("estimates usage from the text in a stream's events, wherever the stream is split", () => {
    const estimate = (...texts: string[]) => stream(content(""), ...texts.map(content)).estimatedOutputTokens;
    expect(estimate("Hello there")).toBe(3);
    expect(estimate(..."Hello there")).toBe(3);
    expect(estimate("x".repeat(400))).toBe(100);
    expect(estimate("x".repeat(401))).toBe(101);
    expect(estimate("", "")).toBe(0);
    expect(estimate("Grüße 🦊 ".repeat(10))).toBe(Math.ceil(Buffer.byteLength("Grüße 🦊 ".repeat(10)) / 4));
    expect(estimate('\n"\\'.repeat(40))).toBe(30);
  });

  test("estimates the same usage for text whether or not its characters are escaped", () => {
    const escaped = content("Grüße 🦊 ".repeat(10)).replace(
      /[^\0-\x7f]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
    );
    expect(stream(content(""), escaped).estimatedOutputTokens).toBe(
      stream(content(""), content("Grüße 🦊 ".repeat(10))).estimatedOutputTokens,
    );
  });

  test("estimates usage if the last stated usage is all zeros and there was output", () => {
    const zeros = event(chunk({ choices: [], usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } }));
    expect(stream(content("Hello"), zeros)).toMatchObject({ usageIsFinal: false, estimatedOutputTokens: 2 });
    expect(stream(content("Hello"), zeros).usage).toBeUndefined();
    expect(stream(content(""), zeros)).toMatchObject({ usageIsFinal: true });
  });

  test("estimates usage for an event of the maximum size", () => {
    for (const text of ["x".repeat(15_000_000), "\n".repeat(7_500_000)]) {
      expect(stream(content(""), content(text)).estimatedOutputTokens).toBe(text.length / 4);
    }
  });

  test("includes tool arguments and reasoning in the estimated usage", () => {
    const call = { index: 0, function: { arguments: "x".repeat(40) } };
    const delta = { content: null, reasoning_content: "x".repeat(8), tool_calls: [call] };
    expect(stream(content(""), event(chunk({ choices: [{ index: 0, delta }] }))).estimatedOutputTokens).toBe(12);
  });
});

/** Returns the data of a stream's last event, and the lines after it. */
function completionOf(stream: string, options: Parameters<typeof createReader>[0] = {}): [unknown, string[]] {
  const reader = createReader(options);
  reader.push(encoder.encode(stream));
  const [last = "", ...rest] = reader.completion(platform).split("\n\n");
  expect(last.startsWith("event: response.completed\ndata: ")).toBe(true);
  return [JSON.parse(last.slice(last.indexOf("{"))), rest];
}

/**
 * The client gets usage only in the last event, because openai-java 4's ChatCompletionAccumulator ignores the choices
 * of a chunk with usage and throws on any later chunk. As in OpenAI's reference, the last event has empty choices if
 * `include_usage` is set.
 */
describe("the last event of a chat stream", () => {
  const usage = { prompt_tokens: 3, completion_tokens: 2 };
  const emptyChoice = { index: 0, delta: {}, finish_reason: null };

  test.for([
    ["has one empty choice, so that chunk.choices[0].delta can be read", false, [emptyChoice]],
    ["is the usage chunk for a client that asked for usage", true, []],
  ] as const)("the last event of a chat stream %s", ([, wantsUsage, choices]) => {
    const [last, rest] = completionOf(whole, { wantsUsage });
    expect(last).toEqual(chunk({ choices, usage, platform }));
    expect(rest).toEqual(["data: [DONE]", ""]);
  });

  test("the last event states the provider's usage, including members that OpenAI doesn't have", () => {
    const stated = { ...usage, prompt_cache_hit_tokens: 1, cost: 0.1 };
    const [last] = completionOf(content("a") + event(chunk({ choices: [], usage: stated })));
    expect(last).toMatchObject({ usage: stated });
  });

  test("the last event states the charged usage if the provider states none", () => {
    const [last] = completionOf(content("a"));
    expect(last).toMatchObject({ usage: { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 } });
  });

  test("only the last event has usage, even if the provider sends usage earlier", () => {
    const choices = [{ index: 0, delta: {}, finish_reason: "stop" }];
    const { text } = scan([encoder.encode(content("a") + event(chunk({ choices, usage })))]);
    expect(text).toBe(content("a") + event(chunk({ choices })));
  });
});

// Clients assemble tool calls by index: https://github.com/ollama/ollama/issues/15457
describe("Tool calls", () => {
  const call = (id: string, index: number) =>
    event(
      chunk({
        choices: [{ index: 0, delta: { tool_calls: [{ index, id, function: { name: "f", arguments: "{}" } }] } }],
      }),
    );

  test("tool calls pass unchanged if each has its own index", () => {
    const events = [content(""), call("a", 0), call("b", 1)].join("");
    expect(scan([encoder.encode(events)]).text).toBe(events);
  });

  test("tool calls that arrive with the same index get different indexes, early or late in the stream", () => {
    expect(scan([encoder.encode(call("a", 0) + call("b", 0))]).text).toBe(call("a", 0) + call("b", 1));
    const events = [content("x"), call("a", 0), call("b", 0)];
    expect(scan([encoder.encode(events.join(""))]).text).toBe(content("x") + call("a", 0) + call("b", 1));
  });

  test("passes tool calls on without the usage stated in the same chunk", () => {
    const usage = { prompt_tokens: 3, completion_tokens: 2 };
    const counted = call("b", 0).replace(/\}\n\n$/, `,"usage":${JSON.stringify(usage)}}\n\n`);
    const { text, facts } = scan([encoder.encode(call("a", 0) + counted)]);
    expect(text).toBe(call("a", 0) + call("b", 1));
    expect(facts.usage).toMatchObject({ counts });
  });
});

// An event without data fails in openai-python (https://github.com/openai/openai-python/issues/2722) and in openai-go
// before 3.43 (https://github.com/openai/openai-go/pull/621), which take the blank line for the end of an empty event.
test.for([
  ": OPENROUTER PROCESSING\n\n",
  ":\n\n",
  "id: 7\nretry: 10\n\n",
  "event: ping\n\n",
  "event: ping\ndata:\n\n",
  "data: \n\n",
])("drops %j, an event without data, since the gateway writes its own keepalives", (silent) => {
  const { text, facts } = scan([encoder.encode(silent + content("a") + silent + content("b"))]);
  expect(text).toBe(content("a") + content("b"));
  expect(facts).toMatchObject({ failed: false, events: 2 });
});

test("drops blank lines between events", () => {
  expect(scan([encoder.encode(`\n\n${content("a")}\n\n\r\n\r\n${content("b")}`)]).text).toBe(
    content("a") + content("b"),
  );
});

test("drops a byte order mark, wherever it is split", () => {
  const bytes = encoder.encode(`\uFEFF${content("a")}${content("b")}`);
  for (let at = 0; at <= 8; at++) {
    expect(scan([bytes.slice(0, at), bytes.slice(at)]).text).toBe(content("a") + content("b"));
  }
});

describe("Events that are not chunks", () => {
  // Providers send `data: null` (https://github.com/NousResearch/hermes-agent/pull/80822), a time
  // (https://github.com/missuo/FreeGPT35/pull/29), and chunks without choices
  // (https://github.com/pydantic/pydantic-ai/issues/5165).
  test.for([
    event({ type: "ping" }),
    `event: ping\n${event({ type: "ping" })}`,
    "event: ping\ndata: {}\n\n",
    event({ object: "chat.completion.chunk" }),
    event({ choices: null, id: "x", created: 1 }),
    event({ id: "x", x_groq: { id: "req_1" } }),
    event({ citations: ["https://example.org"], search_results: [] }),
    event({ type: "status", message: "Searching the web" }),
    event({ object: "progress", detail: { step: 1 } }),
    event({ type: "message_start", message: { role: "assistant" } }),
    event({ status: "ok", code: 200, message: "queued" }),
    event({ message: "keep-alive" }),
    event({ error: null, detail: null }),
    event(null),
    event(1),
    event([]),
    event("ping"),
    "data: ping\n\n",
    "data: heartbeat\n\n",
    "data: [HEARTBEAT]\n\n",
    "data: 2024-04-07 20:20:50.554328\n\n",
    "event: heartbeat\ndata: still thinking\n\n",
    "nothing\n\n",
  ])("the event %j is dropped at any position and does not count as content", (other) => {
    const { text, facts } = scan([encoder.encode(other + content("a") + other + content("b"))]);
    expect(text).toBe(content("a") + content("b"));
    expect(facts).toMatchObject({ failed: false, events: 2 });
    expect(scan([encoder.encode(`${other}data: [DONE]\n\n`)]).facts).toMatchObject({ failed: true, events: 0 });
  });

  test("an event without choices is read as a usage chunk if it states usage", () => {
    const { usage } = JSON.parse(usageChunk.slice("data: ".length));
    for (const stated of [{ usage }, { choices: null, usage }]) {
      const bytes = [encoder.encode(content("a") + event(stated))];
      expect(scan(bytes)).toMatchObject({ text: content("a"), facts: { usage: { counts }, usageIsFinal: true } });
      expect(completionOf(content("a") + event(stated))[0]).toMatchObject({ usage });
    }
  });
});

// Azure's first chunk has no choices: https://learn.microsoft.com/azure/ai-services/openai/concepts/content-filter
test("a chunk with empty choices is passed on, but does not count as content", () => {
  const filtered = event(chunk({ id: "", choices: [], prompt_filter_results: [{ prompt_index: 0 }] }));
  expect(scan([encoder.encode(filtered + content("a"))])).toMatchObject({
    text: filtered + content("a"),
    facts: { events: 1 },
  });
  expect(scan([encoder.encode(`${filtered}data: [DONE]\n\n`)]).facts.failed).toBe(true);
});

describe("a stream without [DONE]", () => {
  const finish = (index: number, finish_reason: string | null = "stop") =>
    event(chunk({ choices: [{ index, delta: {}, finish_reason }] }));
  const isDone = (events: string, choices = 1) => scan([encoder.encode(events)], { choices }).facts.done;

  test("a stream without [DONE] is complete if every choice has finished or the stated usage is final", () => {
    expect(isDone(content("a"))).toBe(false);
    expect(isDone(content("a") + finish(0, null) + finish(0, ""))).toBe(false);
    expect(isDone(content("a") + finish(0))).toBe(true);
    expect(isDone(content("a") + finish(0, "length").trimEnd())).toBe(true);
    expect(isDone(content("a") + finish(0) + finish(0), 2)).toBe(false);
    expect(isDone(content("a") + finish(0) + finish(1), 2)).toBe(true);
    expect(isDone(content("a") + usageChunk)).toBe(true);
    expect(isDone(content("a") + finish(0) + event({ error: {} }))).toBe(false);
  });

  // Finish reasons of OpenAI, Anthropic, Gemini and Mistral, and of servers that pass on their models' finish reasons.
  test.for([
    ["stop", true],
    ["length", true],
    ["content_filter", true],
    ["tool_calls", true],
    ["function_call", true],
    ["eos", true],
    ["eos_token", true],
    ["end_turn", true],
    ["stop_sequence", true],
    ["MAX_TOKENS", true],
    ["model_length", true],
    // OpenRouter's finish reason of a failed choice: https://openrouter.ai/docs/api-reference/errors
    ["error", false],
    ["", false],
    [null, false],
    // DashScope sends "null" until the choice ends: https://help.aliyun.com/zh/model-studio/qwen-api-reference
    ["null", false],
  ] as const)("a stream without [DONE] whose finish reason is %j counts as complete: %s", ([reason, done]) => {
    expect(isDone(content("a") + finish(0, reason))).toBe(done);
    const choices = [{ index: 0, delta: { content: "b" }, finish_reason: reason }];
    expect(isDone(content("a") + event(chunk({ choices })))).toBe(done);
    expect(isDone(event(chunk({ choices })))).toBe(done);
  });

  test("a stream that is cut off within an event is complete if all choices had finished before", () => {
    for (const cut of ["data", 'data: {"id":"c1","choices":[],"usa', ": keep", "event: p"]) {
      expect(isDone(content("a") + finish(0) + cut)).toBe(true);
      expect(isDone(content("a") + cut)).toBe(false);
    }
    expect(isDone(`${content("a")}${finish(0)}event: error\ndata: {"mess`)).toBe(false);
    expect(isDone(`${content("a")}${usageChunk}data: [DO`)).toBe(true);
    expect(isDone(`${content("a")}${usageChunk}data: {"id":"c1","choices":[{"del`)).toBe(false);
  });

  test("a finish reason quoted in the content does not complete a stream", () => {
    expect(isDone(content("a") + content('{"finish_reason": "stop"}'))).toBe(false);
  });
});

describe("failures in a chat stream", () => {
  test("an error event ends the stream and is not passed on", () => {
    const { text, facts } = scan([
      encoder.encode(content("a") + event({ error: { message: "secret" } }) + content("b")),
    ]);
    expect(text).toBe(content("a"));
    expect(facts).toMatchObject({ failed: true, done: false });
  });

  test.for([
    'event: error\ndata: {"message":"secret"}\n\n',
    'event: error\rdata: {"message":"secret"}\r\r',
    'event: error\ndata: {"message":"secret","choices":[]}\n\n',
    'data: {"message":"secret"}\n\n',
    'data: {"object":"error","code":500}\n\n',
    'data: {"type":"error"}\n\n',
    'data: {"error":"overloaded"}\n\n',
    'data: [{"error":{"code":429}}]\n\n',
    'data: {"type":"rate_limit","code":"429","message":"secret"}\n\n',
    'data: {"type":"overloaded","message":"secret"}\n\n',
    'data: {"status":503,"message":"secret"}\n\n',
    'data: {"choices":[],"x_groq":{"error":"secret"}}\n\n',
    "data: Error\n\n",
    "data: <html>secret\n\n",
    "event: error\n\n",
    'data: {"detail":"secret"}\n\n',
    'data: {"message":"secret","choices":"none"}\n\n',
    'data: Traceback (secret): "choices":\n\n',
    'data: {"usage":{ secret\n\n',
    "Traceback (secret)\n\n",
    '{"error":"secret"}\n\n',
    "data: a secret",
  ])("the event %j is a failure at any position and is not passed on", (garbage) => {
    for (const before of ["", content("a"), `${content("a")}: wait\n\n`]) {
      const { text, facts } = scan([encoder.encode(before + garbage + content("b"))]);
      expect(text).toBe(before.replace(": wait\n\n", ""));
      expect(facts).toMatchObject({ failed: true, events: before === "" ? 0 : 1 });
    }
  });

  test("a failed stream keeps the usage stated in its error", () => {
    const { usage } = JSON.parse(usageChunk.slice("data: ".length));
    for (const choices of [[], [{ index: 0, delta: { content: "" }, finish_reason: "error" }]]) {
      const failure = event(chunk({ choices, usage, error: { message: "secret" } }));
      const { text, facts } = scan([encoder.encode(content("a") + failure)]);
      expect(text).toBe(content("a"));
      expect(facts).toMatchObject({ failed: true, done: false, usage: { counts }, usageIsFinal: true });
    }
  });

  test("an unterminated last event is passed on if it is complete, and dropped otherwise", () => {
    expect(scan([encoder.encode(`${content("a")}data: {"cho`)]).text).toBe(content("a"));
    expect(scan([encoder.encode(content("a") + content("b").trimEnd())]).text).toBe(content("a") + content("b"));
    expect(scan([encoder.encode(content("a").slice(0, -1))]).text).toBe(content("a"));
    expect(scan([encoder.encode(`${content("a").trimEnd()}\r`)]).text).toBe(`${content("a").trimEnd()}\r\n\n`);
    expect(scan([encoder.encode(`${content("a")}data: [DONE]`)]).facts.done).toBe(true);
  });
});

describe("Terminators and line endings", () => {
  test.for(["data: [DONE] \n\n", "data:[DONE]\r\n\r\n", "data: [DONE]\t\r\r"])(
    "a stream ends at the terminator %j",
    (terminator) => {
      const { text, facts } = scan([encoder.encode(content("a") + terminator + content("b"))]);
      expect(text).toBe(content("a"));
      expect(facts.done).toBe(true);
    },
  );

  test.for([":\r\r", ":\r\r\n", ":x\n:\r\r"])("quickly scans a large piece with many repetitions of %j", (silent) => {
    const began = performance.now();
    const { facts } = scan([encoder.encode(`${silent.repeat(200_000)}${usageChunk}data: [DONE]\n\n`)]);
    expect(facts).toMatchObject({ usage: { counts }, done: true });
    // Searching the rest of the input again for each event would take a minute.
    expect(performance.now() - began).toBeLessThan(5_000);
  });

  test("a stream with mixed line endings gives the same events whether it is read at once or byte by byte", () => {
    const ends = fc.constantFrom("\n", "\r", "\r\n", ":");
    fc.assert(
      fc.property(fc.array(ends, { maxLength: 30 }), (line) => {
        const bytes = encoder.encode(`${line.join("")}${content("x")}${usageChunk}`);
        const byByte = scan([...bytes].map((byte) => Uint8Array.of(byte)));
        expect(scan([bytes])).toEqual(byByte);
      }),
    );
  });

  test("lines may end in single carriage returns, wherever the stream is split", () => {
    const returns = encoder.encode(whole.replaceAll("\r\n", "\n").replaceAll("\n", "\r"));
    const passed = shown[0] + body.slice(1).join("").replaceAll("\r\n", "\n").replaceAll("\n", "\r");
    for (let at = 0; at <= returns.length; at++) {
      const { text, facts } = scan([returns.slice(0, at), returns.slice(at)]);
      expect(text, `split at ${at}`).toBe(passed);
      expect(facts).toMatchObject({ usage: { counts }, done: true, failed: false });
    }
  });
});
