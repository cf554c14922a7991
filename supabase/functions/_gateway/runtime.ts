import { assembleGateway, type Share } from "./assemble-gateway.ts";
import type { Gateway } from "./calls/gateway.ts";
import { readEnvironment } from "./environment.ts";
import { createRouter } from "./http/router.ts";
import { logError } from "./log-error.ts";

/** The part of the edge runtime that the functions use. */
const runtime = globalThis as unknown as {
  Deno: {
    env: { toObject: () => Record<string, string> };
    serve: (handler: (request: Request) => Promise<Response>) => unknown;
  };
  EdgeRuntime?: { waitUntil: (work: Promise<unknown>) => void };
};

/** Serves a function's handler with a gateway configured from the environment. */
export function serve(
  createHandler: (gateway: Gateway) => (request: Request) => Promise<Response>,
  share: Share = {},
): void {
  runtime.Deno.serve(createHandler(gatewayFromEnvironment(share)));
}

/** Serves a path of OpenAI's API that the gateway lacks: answers 404 in OpenAI's format instead of the platform's. */
export function serveNotFound(): void {
  serve((gateway) => createRouter([], gateway));
}

function gatewayFromEnvironment(share: Share): Gateway {
  function waitUntil(work: Promise<unknown>): void {
    const handled = work.catch((error) => logError(error));
    runtime.EdgeRuntime?.waitUntil(handled);
  }
  const gateway = assembleGateway(readEnvironment(runtime.Deno.env.toObject()), {
    waitUntil,
    report: logError,
    write: (line) => console.log(line),
    ...share,
  });
  // The isolate is about to end, so waiting batches are sent now.
  globalThis.addEventListener("beforeunload", () => waitUntil(gateway.flush()));
  return gateway;
}
