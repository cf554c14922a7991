import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** The usage that every answer states. */
export const usage = { input: 20, output: 30 };
export const answerText = "Hello after silence.";

const event = (data: { type: string } & Record<string, unknown>) =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;

/** An answer in one of the provider's APIs: the events before and after a pause, and the whole answer. */
type Answer = { before: string; after: string; whole: object };

const [firstWord, rest] = ["Hello ", "after silence."];

function chat(): Answer {
  const head = { id: "chatcmpl-1", created: 1, model: "slow" };
  const counts = { prompt_tokens: usage.input, completion_tokens: usage.output, total_tokens: 50 };
  const chunk = (fields: object) =>
    `data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", ...fields })}\n\n`;
  const delta = (content: string) => chunk({ choices: [{ index: 0, delta: { role: "assistant", content } }] });
  const finish = chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
  const message = { role: "assistant", content: answerText };
  return {
    before: delta(firstWord),
    after: `${delta(rest)}${finish}${chunk({ choices: [], usage: counts })}data: [DONE]\n\n`,
    whole: {
      ...head,
      object: "chat.completion",
      choices: [{ index: 0, message, finish_reason: "stop" }],
      usage: counts,
    },
  };
}

function responses(): Answer {
  const head = { id: "resp_1", object: "response", created_at: 1, model: "slow", error: null, tools: [] };
  const inProgress = { ...head, status: "in_progress", output: [] };
  const item = { id: "msg_1", type: "message", role: "assistant", status: "in_progress", content: [] as object[] };
  const text = (text: string) => ({ type: "output_text", text, annotations: [] });
  const done = { ...item, status: "completed", content: [text(answerText)] };
  const at = { output_index: 0, item_id: item.id, content_index: 0 };
  const counts = { input_tokens: usage.input, output_tokens: usage.output, total_tokens: 50 };
  const whole = { ...head, status: "completed", output: [done], usage: counts };
  const delta = (delta: string) => ({ type: "response.output_text.delta", ...at, delta });
  const numbered = (events: ({ type: string } & Record<string, unknown>)[], from: number) =>
    events.map((each, index) => event({ ...each, sequence_number: from + index })).join("");
  const opening = [
    { type: "response.created", response: inProgress },
    { type: "response.in_progress", response: inProgress },
    { type: "response.output_item.added", output_index: 0, item },
    { type: "response.content_part.added", ...at, part: text("") },
    delta(firstWord),
  ];
  const closing = [
    delta(rest),
    { type: "response.output_text.done", ...at, text: answerText },
    { type: "response.content_part.done", ...at, part: text(answerText) },
    { type: "response.output_item.done", output_index: 0, item: done },
    { type: "response.completed", response: whole },
  ];
  return { before: numbered(opening, 0), after: numbered(closing, opening.length), whole };
}

function messages(): Answer {
  const head = { id: "msg_1", type: "message", role: "assistant", model: "slow" };
  const delta = (text: string) => ({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } });
  const before = [
    {
      type: "message_start",
      message: { ...head, content: [], usage: { input_tokens: usage.input, output_tokens: 1 } },
    },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    delta(firstWord),
  ];
  const after = [
    delta(rest),
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: usage.output } },
    { type: "message_stop" },
  ];
  const counts = { input_tokens: usage.input, output_tokens: usage.output };
  return {
    before: before.map(event).join(""),
    after: after.map(event).join(""),
    whole: { ...head, content: [{ type: "text", text: answerText }], stop_reason: "end_turn", usage: counts },
  };
}

const answers: Record<string, () => Answer> = { completions: chat, responses, messages };

/**
 * Starts a provider on loopback that is silent before the first byte of a stream and again after its first word, and
 * before a whole answer. It answers at once for a model named `quick`.
 */
export async function startSilentProvider({
  streamMs,
  wholeMs,
}: {
  streamMs: number;
  wholeMs: number;
}): Promise<{ url: string; close: () => void }> {
  async function answer(path: string, body: { model: string; stream?: boolean }, response: ServerResponse) {
    const { before, after, whole } = (answers[path] ?? chat)();
    const isQuick = body.model === "quick";
    if (!body.stream) {
      await sleep(isQuick ? 0 : wholeMs);
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(whole));
      return;
    }
    await sleep(isQuick ? 0 : streamMs);
    response.writeHead(200, { "content-type": "text/event-stream" }).write(before);
    await sleep(isQuick ? 0 : streamMs);
    response.end(after);
  }
  const server = createServer(async (request, response) => {
    const body = JSON.parse((await request.toArray()).join(""));
    await answer(request.url?.split("/").at(-1) ?? "", body, response);
  });
  // Only the gateway's limits apply.
  server.requestTimeout = 0;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
