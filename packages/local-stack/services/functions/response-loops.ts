import { createServer } from "node:http";
import { type FunctionHandler, type HttpConn, type RequestEvent, runtime, type Serve } from "./deno-api.ts";
import { createListener } from "./listener.ts";

type LoopOptions = {
  hostname: string;
  port: number;
  onListen: () => void;
  /** Creates the response if the handler throws. */
  onError: (error: unknown) => Response;
};
/** Stops accepting requests. Running ones may take up to `limitMs`. */
type Stop = (limitMs: number) => Promise<void>;
type Loop = (handle: FunctionHandler, options: LoopOptions) => Stop;

/** The same limit as the stack's gateway. */
const maxHeaderSize = 32 * 1024;
/** The Deno version on which hosted Supabase's runtime is built. */
const hostedDeno = "2.1.4";

/**
 * Returns the loop that `LOCAL_RESPONSE_LOOP` names. The loop reads requests and writes responses. The default is
 * Node's server. On hosted Supabase's version of Deno, Node's server forwards no headers, so hosted Supabase's loop is
 * the default there.
 * @param serve Deno's own `serve`
 */
export function responseLoop(name: string | undefined, { serve }: { serve: Serve }): Loop {
  const isHosted = runtime.Deno.version.deno === hostedDeno;
  switch (name ?? (isHosted ? "hosted" : "node")) {
    case "hosted":
      return (handle, options) => serveAsHosted(closing(handle), options);
    case "deno":
      return (handle, options) => serveByDeno(closing(handle), { ...options, serve });
    case "node":
      return serveByNode;
    default:
      throw new Error(`LOCAL_RESPONSE_LOOP must be deno or hosted, not ${name}`);
  }
}

/**
 * Closes the connection after each response. Hosted Supabase uses a connection for only one request. Deno closes a
 * connection if a request's body was not read, possibly just when the stack's gateway is about to reuse the connection.
 */
function closing(handle: FunctionHandler): FunctionHandler {
  return async (request, info) => {
    const response = await handle(request, info);
    response.headers.set("connection", "close");
    return response;
  };
}

/**
 * Serves with Node's server, which always notices if a client disconnects before its response. Deno's server notices it
 * only sometimes.
 */
function serveByNode(handle: FunctionHandler, { hostname, port, onListen, onError }: LoopOptions): Stop {
  const server = createServer({ maxHeaderSize }, createListener(handle, onError));
  server.listen(port, hostname, onListen);
  return async (limitMs) => {
    const timer = setTimeout(() => server.closeAllConnections(), limitMs);
    await new Promise((resolve) => {
      server.close(resolve);
      server.closeIdleConnections();
    });
    clearTimeout(timer);
  };
}

function serveByDeno(handle: FunctionHandler, { serve, ...options }: LoopOptions & { serve: Serve }): Stop {
  const ending = new AbortController();
  const server = serve({ ...options, signal: ending.signal }, handle);
  return async (limitMs) => {
    const timer = setTimeout(() => ending.abort(), limitMs);
    await server.shutdown();
    clearTimeout(timer);
  };
}

/**
 * Serves requests the way hosted Supabase's runtime does (supabase/edge-runtime: ext/runtime/js/http.js around
 * Deno.serveHttp). A disconnected client is noticed only at the next write. The failed write cancels the response's
 * stream and aborts the request's signal.
 */
function serveAsHosted(handle: FunctionHandler, { hostname, port, onListen, onError }: LoopOptions): Stop {
  const listener = runtime.Deno.listen({ hostname, port });
  const connections = new Set<HttpConn>();
  const responding = new Set<Promise<void>>();

  async function respond({ request, respondWith }: RequestEvent, connection: HttpConn): Promise<void> {
    const response = await Promise.resolve(request).then(handle).catch(onError);
    await respondWith(response).catch(() => close(connection));
  }

  async function read(connection: HttpConn): Promise<void> {
    connections.add(connection);
    try {
      for await (const event of connection) {
        const response = respond(event, connection).finally(() => responding.delete(response));
        responding.add(response);
      }
    } catch {
      // The client has closed the connection.
    } finally {
      close(connection);
    }
  }

  function close(connection: HttpConn): void {
    connections.delete(connection);
    try {
      connection.close();
    } catch {
      // The connection is closed already.
    }
  }

  async function accept(): Promise<void> {
    while (!stopped) {
      try {
        void read(runtime.Deno.serveHttp(await listener.accept()));
      } catch {
        // The client disconnected before its connection was accepted (ENOTCONN), or the listener is closed.
      }
    }
  }

  let stopped = false;
  void accept();
  onListen();
  return async (limitMs) => {
    stopped = true;
    listener.close();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const limit = new Promise((resolve) => {
      timer = setTimeout(resolve, limitMs);
    });
    await Promise.race([Promise.all(responding), limit]);
    clearTimeout(timer);
    for (const connection of connections) close(connection);
  };
}
