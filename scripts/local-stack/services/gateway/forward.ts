import { Agent, type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from "node:http";
import { pipeline } from "node:stream";
import type { Refusal } from "./refusals.ts";

/** Below the five seconds after which Node's and Deno's servers close a connection that nobody uses. */
const idleConnectionMs = 4_000;
const agent = new Agent({ keepAlive: true, timeout: idleConnectionMs, maxSockets: Number.POSITIVE_INFINITY });

/** RFC 9110 section 7.6.1: these belong to one connection and are not passed on. */
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
  /** Origin of the service, then path and query as it shall see them. */
  origin: string;
  path: string;
  headers: IncomingHttpHeaders;
  /** Takes the place of all that the service itself says about access from other origins. */
  crossOrigin?: Record<string, string>;
  /** Answered when the service cannot be reached. */
  unreachable: Refusal;
};

/**
 * Passes a request on to a service and its answer back, both as they come: bytes are neither held nor changed, a slow
 * reader slows the writer down, and a client that leaves takes the call to the service with it.
 */
export function forward(incoming: IncomingMessage, outgoing: ServerResponse, options: ForwardOptions): void {
  const { hostname, port } = new URL(options.origin);
  const headers = withoutHopByHop(options.headers);
  // As on Supabase: whether there is a WebSocket is for the service to say.
  if (incoming.headers.upgrade) Object.assign(headers, { connection: "upgrade", upgrade: incoming.headers.upgrade });
  // Said explicitly, since Node's client sends the body of a DELETE without any framing otherwise.
  if (incoming.headers["transfer-encoding"] !== undefined) headers["transfer-encoding"] = "chunked";
  const upstream = request({ agent, hostname, port, method: incoming.method, path: options.path, headers });
  outgoing.once("close", () => {
    if (!outgoing.writableFinished) upstream.destroy();
  });
  upstream.once("response", (answer) => {
    outgoing.writeHead(answer.statusCode ?? 502, answerHeaders(answer.headers, options.crossOrigin));
    if (answer.headers["content-length"] === undefined) outgoing.flushHeaders();
    pipeline(answer, outgoing, () => {});
    // Who has answered reads no more: what is on its way there would wait for ever.
    answer.once("end", () => {
      if (!incoming.readableEnded) upstream.destroy();
    });
  });
  upstream.on("error", () => incoming.unpipe(upstream));
  upstream.once("close", () => {
    incoming.unpipe(upstream);
    // What is left of a body that the service did not want would hold up the client's next request.
    incoming.resume();
    // Not only after an error: a switch to another protocol is not passed on either.
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

/** The request's headers with what a service behind us may trust about where it came from. */
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
