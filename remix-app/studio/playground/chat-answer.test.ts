import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createChatAnswer, readWholeAnswer } from "./chat-message.ts";
import { readEmbedded } from "./embedded-answer.ts";
import { failureInStream, failureOf, readFailure } from "./failure.ts";
import { factsOfHeaders, factsOfRun, parseAnswer } from "./run-facts.ts";
import { eventData } from "./stream-chat.ts";

async function dataOf(chunks: Uint8Array[]): Promise<string[]> {
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  const found: string[] = [];
  for await (const data of eventData(stream)) found.push(data);
  return found;
}

describe("reading stream events", () => {
  test("the same stream events are read, however the bytes are split into chunks", async () => {
    const text =
      'data: {"a":"日本 😀"}\n\n: comment\r\nevent: x\r\ndata: one\r\ndata:two\r\n\r\n\n\ndata: [DONE]\n\ndata: cut';
    const bytes = new TextEncoder().encode(text);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(bytes.length), { maxLength: 12 }), async (cuts) => {
        const places = [0, ...cuts.sort((one, other) => one - other), bytes.length];
        const chunks = places.slice(1).map((end, index) => bytes.slice(places[index], end));
        expect(await dataOf(chunks)).toEqual(['{"a":"日本 😀"}', "one\ntwo", "[DONE]"]);
      }),
    );
  });
});

describe("a chat answer", () => {
  test("a chat answer is assembled from its chunks, with tool calls and cost", () => {
    const { take, answer } = createChatAnswer();
    const chunks = [
      { choices: [{ delta: { role: "assistant", content: "" } }] },
      { choices: [{ delta: { content: "Hel" } }] },
      { choices: [{ delta: { content: "lo" } }] },
      { choices: [{ delta: { tool_calls: [{ index: 1, id: "b", function: { name: "g", arguments: "" } }] } }] },
      { choices: [{ delta: { tool_calls: [{ index: 0, id: "a", function: { name: "f", arguments: '{"x"' } }] } }] },
      { choices: [{ delta: { tool_calls: [{ index: 0, function: { arguments: ":1}" } }] } }] },
      { choices: [{ delta: {}, finish_reason: "tool_calls" }], unknown: null },
      {
        choices: [],
        platform: { run_id: "r", provider_cost_usd: 1e-7, usage: { input_tokens: 3 }, schema_valid: false },
      },
    ];
    for (const chunk of chunks) take(JSON.stringify(chunk));
    take("[DONE]");
    expect(answer()).toMatchObject({
      message: {
        content: "Hello",
        tool_calls: [
          { id: "a", function: { name: "f", arguments: '{"x":1}' } },
          { id: "b", function: { name: "g", arguments: "" } },
        ],
      },
      finish: "tool_calls",
      facts: { runId: "r", costUsd: "0.0000001", inputTokens: 3, schemaValid: false },
    });
  });

  test("reads the message, finish reason and facts of a chat answer that is not streamed", () => {
    const message = { role: "assistant", content: null, refusal: "No.", tool_calls: null };
    const whole = JSON.stringify({ choices: [{ message, finish_reason: "stop" }], platform: { run_id: "r" } });
    expect(readWholeAnswer(whole)).toMatchObject({
      message: { role: "assistant", content: null, refusal: "No." },
      finish: "stop",
      facts: { runId: "r" },
    });
    expect(() => readWholeAnswer("{}")).toThrow();
  });

  test("the usage and cost of a chat answer are read from response headers or from the answer's run", () => {
    const headers = { "x-platform-run-id": "r", "x-platform-input-tokens": "7", "x-platform-billed-credits": "0.5" };
    expect(factsOfHeaders(new Headers(headers))).toMatchObject({ runId: "r", inputTokens: 7, billedCredits: "0.5" });
    expect(factsOfRun({ id: "r", status: "running" })).toBeNull();
    expect(factsOfRun({ id: "r", status: "cancelled", outputTokens: 5, costUsd: 10 })).toMatchObject({
      outputTokens: 5,
      costUsd: "10",
    });
  });
});

describe("an amount of credits", () => {
  const platform = (amount: string) => `"platform":{"run_id":"r","billed_credits":${amount}}`;
  const ways: [string, (amount: string) => unknown][] = [
    ["a stream", (amount) => streamed(`{"choices":[],${platform(amount)}}`).facts?.billedCredits],
    [
      "a whole answer",
      (amount) => readWholeAnswer(`{"choices":[{"message":{}}],${platform(amount)}}`).facts?.billedCredits,
    ],
    ["embeddings", (amount) => readEmbedded(`{"data":[],${platform(amount)}}`, []).facts.billedCredits],
    ["a run", (amount) => factsOfRun(parseAnswer(`{"id":"r","billedCredits":${amount}}`))?.billedCredits],
  ];

  test.for(ways)("reads an amount of credits in %s without rounding", ([, read]) => {
    expect(read("19660.8003")).toBe("19660.8003");
    expect(read("999999999999.123456789012")).toBe("999999999999.123456789012");
    expect(read("1.50e-3")).toBe("0.0015");
    expect(read("100")).toBe("100");
    expect(read("null")).toBeUndefined();
  });

  function streamed(chunk: string) {
    const { take, answer } = createChatAnswer();
    take(chunk);
    return answer();
  }
});

describe("a failed chat", () => {
  const told = (code: string, more: object = {}) => failureOf({ status: 400, code, ...more }).sentence;

  test("the message for a failed chat says what to do, and when to retry", () => {
    expect(told("insufficient_credits")).toContain("ask for more credits");
    expect(told("MFA_REQUIRED")).toContain("second factor");
    expect(told("rate_limit_exceeded", { retryAfterSeconds: 1 })).toContain("in 1 second.");
    expect(told("rate_limit_exceeded", { retryAfterSeconds: 12 })).toContain("in 12 seconds.");
    expect(told("service_unavailable")).toContain("in a moment");
    expect(told("constructor", { status: 500 })).toContain("on our side");
  });

  test("a chat failure is read from the gateway's or the app's response, with the request id", async () => {
    const error = { message: "The request is invalid.", param: "tools.0", code: "invalid_request", request_id: "r1" };
    expect(await readFailure(Response.json({ error }, { status: 400 }))).toEqual({
      sentence: "The request was refused: The request is invalid. (tools.0)",
      requestId: "r1",
    });
    const problem = { code: "RATE_LIMITED", requestId: "r2" };
    const limited = Response.json(problem, { status: 429, headers: { "retry-after": "5" } });
    expect(await readFailure(limited)).toEqual({
      sentence: "The rate limit is reached. Try again in 5 seconds.",
      requestId: "r2",
    });
    expect((await readFailure(new Response("<html>", { status: 502 }))).sentence).toContain("on our side");
    expect(failureInStream({ code: "provider_error", request_id: "r3" })).toMatchObject({ requestId: "r3" });
  });
});
