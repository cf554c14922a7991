import type { Surface } from "../calls/surface.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";

/**
 * Repeats the stored answer to an earlier call with the same idempotency key, as JSON or as a stream without delays.
 */
export function replayAnswer<Parsed extends ParsedRequest>(
  surface: Surface<Parsed>,
  request: Parsed,
  storedAnswer: string,
): Response {
  const headers = { "x-platform-idempotent-replay": "true" };
  if (!request.stream || !surface.replayStream) {
    return new Response(storedAnswer, { headers: { ...headers, "content-type": "application/json" } });
  }
  return new Response(surface.replayStream(JSON.parse(storedAnswer), request), {
    headers: { ...headers, "content-type": "text/event-stream; charset=utf-8" },
  });
}
