import type { PendingCall } from "../calls/surface.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";

/**
 * A comment line, which clients and load balancers count as activity. No blank line follows it, because older SDKs fail
 * on a blank line without data before it.
 */
const keepaliveComment = ": keepalive\n";

/** Returns the function that writes what keeps a silent stream of the call alive, in the format of its surface. */
export function createKeepalive<Parsed extends ParsedRequest>(call: PendingCall<Parsed>): () => string {
  return () => call.surface.keepalive?.(call) ?? keepaliveComment;
}

/** Returns the headers of a body. Proxies of nginx would otherwise hold back its small parts. */
export function bodyHeaders({ stream }: Pick<ParsedRequest, "stream">): Record<string, string> {
  const type = stream ? "text/event-stream; charset=utf-8" : "application/json";
  return { "content-type": type, "x-accel-buffering": "no" };
}
