import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import type { AdmittedCall } from "../calls/surface.ts";
import { GatewayError } from "../http/errors.ts";
import { responsesErrors } from "./errors.ts";
import { createResponsesReader } from "./events.ts";
import { createProgress, progressEvents } from "./progress.ts";
import type { Responses } from "./request.ts";
import { createStepReader } from "./tool-events.ts";

const usageLimits = { contextWindow: 100, outputLimit: 100, choices: 1 };
const event = (type: string, rest: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`;
const item = { id: "msg_1", type: "message", role: "assistant", status: "in_progress", content: [] };
const text = (text: string) => ({ type: "output_text", text, annotations: [] });
const done = { ...item, status: "completed", content: [text("hello world")] };
const response = {
  id: "resp_theirs",
  object: "response",
  created_at: 7,
  status: "in_progress",
  output: [],
  tools: [{}],
};
const at = { output_index: 0, item_id: "msg_1", content_index: 0 };
const created = event("response.created", { sequence_number: 0, response });
const begun =
  event("response.output_item.added", { sequence_number: 1, output_index: 0, item }) +
  event("response.content_part.added", { sequence_number: 2, ...at, part: text("") }) +
  event("response.output_text.delta", { sequence_number: 3, ...at, delta: "hello " });
const ended =
  event("response.output_text.delta", { sequence_number: 4, ...at, delta: "world" }) +
  event("response.output_item.done", { sequence_number: 5, output_index: 0, item: done }) +
  event("response.completed", {
    sequence_number: 6,
    response: { ...response, status: "completed", output: [done], usage: { input_tokens: 1, output_tokens: 2 } },
  });

/** Reads a stream with OpenAI's client. @returns the text and id of the response, and the number of events */
async function readByClient(body: string) {
  const answer = () => new Response(body, { headers: { "content-type": "text/event-stream" } });
  const client = new OpenAI({
    apiKey: "k",
    baseURL: "https://gateway.test/v1",
    maxRetries: 0,
    fetch: async () => answer(),
  });
  const stream = client.responses.stream({ model: "m", input: "x" });
  let events = 0;
  for await (const _ of stream) events += 1;
  const { output_text, id } = await stream.finalResponse();
  return { output_text, id, events };
}

const kinds = [
  ["of one call", (progress: ReturnType<typeof createProgress>) => createResponsesReader({ usageLimits, progress })],
  [
    "with server tools",
    (progress: ReturnType<typeof createProgress>) => {
      const conversation = { progress, nextIndex: 0, nextSequence: 0, earlierItems: [] };
      progress.nextSequence = () => conversation.nextSequence++;
      return createStepReader({ usageLimits, conversation, first: true, last: true, earlier: {} });
    },
  ],
] as const;

describe.for(kinds)("A silent response %s", ([, createReader]) => {
  function start() {
    const progress = createProgress();
    const reader = createReader(progress);
    const call = { request: { progress }, model: "m", requestId: "req_1" } as unknown as AdmittedCall<Responses>;
    const pass = (events: string) => Buffer.concat(reader.push(new TextEncoder().encode(events))).toString();
    return { reader, pass, keepalive: () => progressEvents(call) };
  }

  test("is one response to OpenAI's client if the gateway began it before the provider did", async () => {
    const { reader, pass, keepalive } = start();
    const before = keepalive() + keepalive();
    expect(before.match(/^event: .*$/gm)).toEqual([
      "event: response.created",
      "event: response.in_progress",
      "event: response.in_progress",
    ]);
    expect(before.match(/"sequence_number":\d+/g)).toEqual([0, 1, 2].map((n) => `"sequence_number":${n}`));
    const body = before + pass(created + begun) + keepalive() + pass(ended) + reader.completion({ usage: {} });
    expect(body).not.toContain("resp_theirs");
    expect(await readByClient(body)).toMatchObject({ output_text: "hello world", id: "resp_req_1" });
    expect(reader.answer?.()?.value).toMatchObject({ id: "resp_req_1" });
  });

  test("keeps the provider's id if the silence comes later, and does not repeat its tools", async () => {
    const { reader, pass, keepalive } = start();
    const [head, silence] = [pass(created + begun), keepalive()];
    expect(silence).toMatch(/^event: response.in_progress\n/);
    expect(silence).toContain('"tools":[]');
    const body = head + silence + pass(ended) + reader.completion({ usage: {} });
    expect(await readByClient(body)).toMatchObject({ output_text: "hello world", id: "resp_theirs" });
  });

  // "The sequence number of this event": https://platform.openai.com/docs/api-reference/responses-streaming
  test.for([true, false])("numbers its events without gaps or repetitions (begun by the gateway: %s)", (isOurs) => {
    const { reader, pass, keepalive } = start();
    const before = isOurs ? keepalive() + keepalive() : "";
    const body = before + pass(created + begun) + keepalive() + pass(ended) + reader.completion({ usage: {} });
    const events = body.match(/(?<=^data: )\{.*$/gm)?.map((data) => JSON.parse(data)) ?? [];
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, n) => n));
  });

  test("changes no text that looks like a sequence number", () => {
    const { pass, keepalive } = start();
    keepalive();
    const delta = 'data: {"sequence_number": 7}';
    const text = pass(created + event("response.output_text.delta", { item_id: "i", delta, sequence_number: 1 }));
    expect(JSON.parse(text.slice(text.indexOf("{")))).toMatchObject({ delta, sequence_number: 2 });
  });

  test("has the same id in the error that ends it", async () => {
    const { reader, keepalive } = start();
    const before = keepalive();
    const error = new GatewayError("provider_timeout");
    for (const event of [responsesErrors.event(error, "req_1"), reader.failure?.(error, "req_1") ?? ""]) {
      expect(event).toContain('"id":"resp_req_1"');
      await expect(readByClient(before + event)).rejects.toMatchObject({ code: "provider_timeout" });
    }
  });
});
