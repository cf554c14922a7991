import type { Asked, Surface } from "../surface.ts";

/**
 * Answers a call as the earlier one with its idempotency key was answered: the JSON as it was kept, or a
 * stream that says it at once.
 */
export function replayAnswer<Request extends Asked>(surface: Surface<Request>, asked: Request, kept: string): Response {
  const headers = { "x-platform-idempotent-replay": "true" };
  if (!asked.stream || !surface.replayStream) {
    return new Response(kept, { headers: { ...headers, "content-type": "application/json" } });
  }
  return new Response(surface.replayStream(JSON.parse(kept), asked), {
    headers: { ...headers, "content-type": "text/event-stream; charset=utf-8" },
  });
}
