import {
  type FunctionHandler,
  type HttpConn,
  type ListenOptions,
  type RequestEvent,
  runtime,
  type Serve,
} from "./deno-api.ts";

/** Stops accepting requests. Running ones may take up to `limitMs`. */
type Stop = (limitMs: number) => Promise<void>;
export type Listen = (handle: FunctionHandler, options: ListenOptions) => Stop;

/** The connection of a request is not known here, because the stack's gateway is in front of the functions. */
const info = { remoteAddress: "" };

/**
 * Returns the loop that `LOCAL_RESPONSE_LOOP` names, which reads requests and writes responses: `deno`, or by default
 * `hosted`.
 */
export function responseLoop(name: string | undefined): Listen {
  const { serve } = runtime.Deno;
  switch (name ?? "hosted") {
    case "hosted":
      return (handle, options) => serveAsHosted(closing(handle), options);
    case "deno":
      return (handle, options) => serveByDeno(closing(handle), { ...options, serve });
    default:
      throw new Error(`LOCAL_RESPONSE_LOOP must be deno or hosted, not ${name}`);
  }
}

/**
 * Closes the connection after each response. Hosted Supabase uses a connection for only one request. Deno closes a
 * connection if a request's body was not read, possibly just when the stack's gateway is about to reuse the connection.
 */
function closing(handle: FunctionHandler): (request: Request) => Promise<Response> {
  return async (request) => {
    const response = await handle(request, info);
    response.headers.set("connection", "close");
    return response;
  };
}

function serveByDeno(
  handle: (request: Request) => Promise<Response>,
  { serve, ...options }: ListenOptions & { serve: Serve },
): Stop {
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
function serveAsHosted(
  handle: (request: Request) => Promise<Response>,
  { hostname, port, onListen, onError }: ListenOptions,
): Stop {
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
