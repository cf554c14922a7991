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

/** The part of Deno's own namespace that the host uses; types of the whole would reach into the rest of the project. */
type DenoNamespace = {
  serve: Serve;
  watchFs: (path: string) => AsyncIterable<{ kind: string; paths: string[] }>;
  addSignalListener: (signal: "SIGINT" | "SIGTERM", listener: () => void) => void;
  exit: (code: number) => never;
};

/** The runtime's globals: those that are there, and the one that Supabase's runtime adds for functions. */
export const runtime = globalThis as unknown as {
  Deno: DenoNamespace;
  EdgeRuntime?: Pick<BackgroundTasks, "waitUntil">;
};
