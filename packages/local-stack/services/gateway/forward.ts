import { Agent, type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from "node:http";
import { pipeline } from "node:stream";
import type { Refusal } from "./refusals.ts";

/** Less than the five seconds after which Node's and Deno's servers close an idle connection. */
const idleConnectionMs = 4_000;
const agent = new Agent({ keepAlive: true, timeout: idleConnectionMs, maxSockets: Number.POSITIVE_INFINITY });

/** RFC 9110 section 7.6.1: these apply to one connection and are not forwarded. */
const hopByHop = [
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
];

export type ForwardOptions = {
  /** The service's origin. `path` has the path and query to send to it. */
  origin: string;
  path: string;
  headers: IncomingHttpHeaders;
  /** Replaces all of the service's own CORS headers. */
  crossOrigin?: Record<string, string>;
  /** The response if the service cannot be reached. */
  unreachable: Refusal;
};

/**
 * Forwards a request to a service and streams its response back: bytes are neither buffered nor changed, a slow reader
 * slows the writer down, and a disconnecting client ends the call to the service.
 */
export function forward(incoming: IncomingMessage, outgoing: ServerResponse, options: ForwardOptions): void {
  const { hostname, port } = new URL(options.origin);
  const headers = withoutHopByHop(options.headers);
  // As on Supabase, the service decides whether to accept a WebSocket.
  if (incoming.headers.upgrade) Object.assign(headers, { connection: "upgrade", upgrade: incoming.headers.upgrade });
  // Set explicitly, since Node's client otherwise sends a DELETE's body without framing.
  if (incoming.headers["transfer-encoding"] !== undefined) headers["transfer-encoding"] = "chunked";
  const upstream = request({ agent, hostname, port, method: incoming.method, path: options.path, headers });
  outgoing.once("close", () => {
    if (!outgoing.writableFinished) upstream.destroy();
  });
  upstream.once("response", (answer) => {
    outgoing.writeHead(answer.statusCode ?? 502, answerHeaders(answer.headers, options.crossOrigin));
    if (answer.headers["content-length"] === undefined) outgoing.flushHeaders();
    pipeline(answer, outgoing, () => {});
    // A service that has responded reads no more of the request, so sending the rest would wait forever.
    answer.once("end", () => {
      if (!incoming.readableEnded) upstream.destroy();
    });
  });
  upstream.on("error", () => incoming.unpipe(upstream));
  upstream.once("close", () => {
    incoming.unpipe(upstream);
    // The rest of an unwanted body would block the client's next request.
    incoming.resume();
    // If the service switches to another protocol, the connection closes without an error. The switch is not forwarded.
    if (outgoing.headersSent || outgoing.destroyed) return;
    const { status, body, headers } = options.unreachable;
    outgoing.writeHead(status, { ...headers, ...options.crossOrigin, "content-type": "application/json" });
    outgoing.end(JSON.stringify(body));
  });
  incoming.pipe(upstream);
}

function answerHeaders(headers: IncomingHttpHeaders, crossOrigin?: Record<string, string>): IncomingHttpHeaders {
  const passed = withoutHopByHop(headers);
  if (!crossOrigin) return passed;
  const rest = Object.entries(passed).filter(([name]) => !name.startsWith("access-control-"));
  return { ...Object.fromEntries(rest), ...crossOrigin };
}

/**
 * Returns the headers to forward. Overwrites the client's X-Forwarded-* headers, so that the services behind us can
 * trust them.
 */
export function forwardedHeaders(incoming: IncomingMessage): IncomingHttpHeaders {
  const { host, ...headers } = incoming.headers;
  return {
    ...headers,
    "x-forwarded-for": incoming.socket.remoteAddress ?? "",
    "x-forwarded-host": host ?? "",
    "x-forwarded-proto": "http",
  };
}

function withoutHopByHop(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const named = String(headers.connection ?? "")
    .toLowerCase()
    .split(/\s*,\s*/);
  const dropped = new Set([...hopByHop, ...named]);
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !dropped.has(name)));
}
