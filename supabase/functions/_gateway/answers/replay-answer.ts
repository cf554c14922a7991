import type { Asked, Surface } from "../surface.ts";

/**
 * Repeats the stored answer to an earlier call with the same idempotency key, as JSON or as a stream without delays.
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
