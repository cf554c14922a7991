import { createServer, type ServerResponse } from "node:http";
import { createListener, type FetchHandler } from "./listener.ts";

export type ListenOptions = {
  hostname: string;
  port: number;
  onListen: () => void;
  /** Receives why the server can't listen. */
  onFailure?: (error: NodeJS.ErrnoException) => void;
  /** Creates the response if the handler throws. */
  onError: (error: unknown) => Response;
};
/** Stops accepting connections, and waits up to `limitMs` for the responses in progress. Cuts off the others. */
export type StopListening = (limitMs: number) => Promise<void>;
export type Listen = (handle: FetchHandler, options: ListenOptions) => StopListening;

/** Twice Node's default, like the web server's. */
const maxHeaderSize = 32 * 1024;
/**
 * Longer than the 60 s for which load balancers keep an idle connection, so that they never reuse a connection that we
 * are closing.
 */
const keepAliveTimeout = 65_000;
/** How long a request that is arriving has, at least, when the server stops. */
const arrivalMs = 1_000;

/**
 * Serves with Node's server, which always notices if a client disconnects before its response. Deno's own server
 * notices it only if the request's head and body came in one packet.
 */
export const listen: Listen = (handle, { hostname, port, onListen, onFailure, onError }) => {
  const server = createServer({ maxHeaderSize, keepAliveTimeout }, createListener(handle, onError));
  const responses = new Set<ServerResponse>();
  server.on("request", (_, response) => {
    responses.add(response);
    response.once("close", () => responses.delete(response));
  });
  if (onFailure) server.once("error", onFailure);
  server.listen(port, hostname, onListen);
  return async (limitMs) => {
    const limit = setTimeout(() => server.closeAllConnections(), limitMs);
    // A connection that has not sent a complete request is not idle for Node, and would keep the server from closing.
    const check = setInterval(() => {
      if (responses.size === 0) server.closeAllConnections();
    }, arrivalMs);
    await new Promise((resolve) => {
      server.close(resolve);
      server.closeIdleConnections();
    });
    clearTimeout(limit);
    clearInterval(check);
  };
};
