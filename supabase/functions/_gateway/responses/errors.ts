import { type ErrorShape, errorBody, type GatewayError } from "../http/errors.ts";

/** What a stream has told its client about a response: the response as created, and the number of events so far. */
export type ResponseStart = { response?: Record<string, unknown>; events: number };

/**
 * OpenAI's errors. A stream ends with `response.failed`. Codex compacts the conversation only if that event has the code
 * of a full context window (https://github.com/openai/codex, codex-api/src/sse/responses.rs).
 */
export const responsesErrors: ErrorShape = {
  body: errorBody,
  event: (error, requestId) => failedEvent(error, requestId, { events: 0 }),
  eventCodes: new Set(["context_length_exceeded"]),
};

/**
 * Returns the event `response.failed`. OpenAI's SDKs raise an error for events with a member `error`
 * (https://github.com/openai/openai-python, src/openai/_streaming.py), so the event has both.
 */
export function failedEvent(error: GatewayError, requestId: string, { response, events }: ResponseStart): string {
  const { code, message } = error;
  const failed = {
    id: `resp_${requestId}`,
    object: "response",
    created_at: Math.floor(Date.now() / 1_000),
    output: [],
    usage: null,
    ...response,
    status: "failed",
    store: false,
    error: { code, message },
  };
  const data = { type: "response.failed", sequence_number: events, response: failed, ...errorBody(error, requestId) };
  return `event: response.failed\ndata: ${JSON.stringify(data)}\n\n`;
}
