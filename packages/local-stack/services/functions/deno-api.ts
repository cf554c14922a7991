/** Handles the requests of all functions, as the product's own server does. */
export type FunctionHandler = (request: Request, info: { remoteAddress: string }) => Response | Promise<Response>;
export type ListenOptions = {
  hostname: string;
  port: number;
  onListen: () => void;
  /** Creates the response if the handler throws. */
  onError: (error: unknown) => Response;
};
export type Serve = (
  options: ListenOptions & { signal: AbortSignal },
  handler: (request: Request) => Promise<Response>,
) => { shutdown: () => Promise<void> };

export type RequestEvent = { request: Request; respondWith: (response: Response) => Promise<void> };
/** A client's connection in Deno.serveHttp. Deno has not declared its type since version 2. */
export type HttpConn = AsyncIterable<RequestEvent> & { close: () => void };
type Listener = { accept: () => Promise<object>; close: () => void };

/** The part of Deno's namespace that the loops use. Deno's full types would affect the rest of the project. */
export const runtime = globalThis as unknown as {
  Deno: {
    serve: Serve;
    listen: (options: { hostname: string; port: number }) => Listener;
    serveHttp: (connection: object) => HttpConn;
  };
};
