import type { BackgroundTasks } from "./background.ts";

export type FunctionHandler = (request: Request, info?: unknown) => Response | Promise<Response>;
export type ServeOptions = {
  port?: number;
  hostname?: string;
  signal?: AbortSignal;
  handler?: FunctionHandler;
  onListen?: () => void;
  onError?: (error: unknown) => Response;
};
export type HttpServer = { finished: Promise<void>; shutdown: () => Promise<void> };
export type Serve = (options: ServeOptions | FunctionHandler, handler?: FunctionHandler) => HttpServer;

export type RequestEvent = { request: Request; respondWith: (response: Response) => Promise<void> };
/** A client's connection in Deno.serveHttp. Deno has not declared its type since version 2. */
export type HttpConn = AsyncIterable<RequestEvent> & { close: () => void };
type Listener = { accept: () => Promise<object>; close: () => void };

/** The part of Deno's namespace that the host uses. Deno's full types would affect the rest of the project. */
type DenoNamespace = {
  serve: Serve;
  version: { deno: string };
  listen: (options: { hostname: string; port: number }) => Listener;
  serveHttp: (connection: object) => HttpConn;
  watchFs: (path: string) => AsyncIterable<{ kind: string; paths: string[] }>;
  addSignalListener: (signal: "SIGINT" | "SIGTERM", listener: () => void) => void;
  exit: (code: number) => never;
};

/** The runtime's globals, including the one that Supabase's runtime adds for functions. */
export const runtime = globalThis as unknown as {
  Deno: DenoNamespace;
  EdgeRuntime?: Pick<BackgroundTasks, "waitUntil">;
};
