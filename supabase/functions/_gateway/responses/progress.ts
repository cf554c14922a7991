import type { PendingCall } from "../calls/surface.ts";
import type { Responses } from "./request.ts";

/** What a streamed response has told its client so far. */
export type ResponseProgress = {
  /** The response as the client's first event has it. */
  response?: Record<string, unknown>;
  /** Whether the gateway began the response itself, before a provider did. */
  isOurs: boolean;
  /** Returns the sequence number of the client's next event. Set by the stream's reader. */
  nextSequence?: () => number;
};

export function createProgress(): ResponseProgress {
  return { isOurs: false };
}

/**
 * Returns the identity that each event with the response must have, because OpenAI's SDKs fail if it changes
 * (openai-node, lib/responses/ResponseStream.ts). Empty if the client has not seen any.
 */
export function getResponseIdentity({ response }: ResponseProgress): { id?: unknown; created_at?: unknown } {
  return response ? { id: response.id, created_at: response.created_at } : {};
}

/**
 * Returns events that keep a silent response alive: `response.in_progress`, preceded by `response.created` if the client
 * has not seen it, since OpenAI's SDKs require it first. Codex ends a stream without an event for 300 s, and comments
 * are not events (https://github.com/openai/codex, codex-api/src/sse/responses.rs).
 */
export function progressEvents({ request: { progress }, model, requestId }: PendingCall<Responses>): string {
  const begins = !progress.response;
  if (begins) progress.isOurs = true;
  progress.response ??= {
    // The same id as in an error event.
    id: `resp_${requestId}`,
    object: "response",
    created_at: Math.floor(Date.now() / 1_000),
    model,
    error: null,
    incomplete_details: null,
    instructions: null,
    metadata: {},
    parallel_tool_calls: true,
    store: false,
    temperature: null,
    tool_choice: "auto",
    tools: [],
    top_p: null,
    usage: null,
  };
  const { instructions, tools, ...rest } = progress.response;
  // Leaves out what may be large, because these events repeat.
  const response = { ...rest, instructions: null, tools: [], status: "in_progress", output: [] };
  const types = [...(begins ? ["response.created"] : []), "response.in_progress"];
  return types
    .map((type) => {
      const data = { type, sequence_number: progress.nextSequence?.() ?? 0, response };
      return `event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
    })
    .join("");
}
