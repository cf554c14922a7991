/** The usage in every answer of the upstream. The bench checks the recorded token counts against it. */
export const statedUsage = { input: 31, output: 17 } as const;

/** The number of content chunks in a stream, and the time between two chunks. */
export const pacedChunks = 100;
export const paceMs = 20;

const usage = {
  prompt_tokens: statedUsage.input,
  completion_tokens: statedUsage.output,
  total_tokens: statedUsage.input + statedUsage.output,
  prompt_tokens_details: { cached_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 0 },
};
const named = { id: "chatcmpl-bench", created: 1_767_225_600, model: "bench" };
const text = "A gatehouse guards the way in: it asks who comes, and writes down what they take.";

/** Returns a response with a body of known length. */
export function wholeResponse(body: string, contentType = "application/json"): Buffer {
  const head = `HTTP/1.1 200 OK\r\ncontent-type: ${contentType}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`;
  return Buffer.from(head + body);
}

/** The answer to each non-streaming chat request. */
export const chatResponse: Buffer = wholeResponse(
  JSON.stringify({
    ...named,
    object: "chat.completion",
    system_fingerprint: "fp_bench",
    choices: [
      { index: 0, message: { role: "assistant", content: text, refusal: null }, logprobs: null, finish_reason: "stop" },
    ],
    usage,
  }),
);

export const streamHead: Buffer = Buffer.from(
  "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n",
);
export const streamEnd: Buffer = Buffer.from("0\r\n\r\n");

/** Returns one chunk of a chunked body (RFC 9112, 7.1). */
export function bodyChunk(event: string): string {
  return `${Buffer.byteLength(event).toString(16)}\r\n${event}\r\n`;
}

/** Returns a content event with a unique text. */
export function contentEvent(nanoseconds: bigint): string {
  return choiceEvent({ content: `${String(nanoseconds).padStart(18, "0")} ` }, null);
}

/** Returns whether `contentEvent` created an event. */
export const isContent = (event: string): boolean => /"content": ?"\d{18} "/.test(event);

/** Returns the events that end a stream. */
export function closingEvents(includeUsage: boolean): string[] {
  const last = choiceEvent({}, "stop");
  const counts = `data: ${JSON.stringify({ ...named, object: "chat.completion.chunk", choices: [], usage })}\n\n`;
  return [last, ...(includeUsage ? [counts] : []), "data: [DONE]\n\n"];
}

function choiceEvent(delta: object, finish: string | null): string {
  const choices = [{ index: 0, delta, logprobs: null, finish_reason: finish }];
  return `data: ${JSON.stringify({ ...named, object: "chat.completion.chunk", choices })}\n\n`;
}
