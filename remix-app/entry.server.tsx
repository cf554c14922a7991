import { Transform } from "node:stream";
import {
  type ActionFunctionArgs,
  type AppLoadContext,
  createReadableStreamFromReadable,
  type EntryContext,
  type LoaderFunctionArgs,
} from "@remix-run/node";
import { isRouteErrorResponse, RemixServer } from "@remix-run/react";
import { renderToPipeableStream } from "react-dom/server";
import { logError } from "#shared/log.ts";
import { BrandContext } from "./ui/brand.ts";
import { FailedRequestContext } from "./ui/failed-request.tsx";
import { NonceContext } from "./ui/inline-script.tsx";

// Exports for server.ts, which takes them from the build.
export { logError, logInfo } from "#shared/log.ts";
export { createApp } from "./app.ts";
export { openRuntime } from "./runtime.ts";

/** Loaders await everything they read, so nothing is left to stream. */
export const streamTimeout = 0;

/** Renders a page and sends it once it is complete, so that it also works without scripts. */
export default function handleRequest(
  request: Request,
  given: number,
  headers: Headers,
  remixContext: EntryContext,
  { brand, nonce, requestId }: AppLoadContext,
): Promise<Response> {
  const status = statusOf(remixContext.staticHandlerContext, given);
  const failed = status >= 500 ? requestId : null;
  return new Promise((resolve, reject) => {
    const { pipe } = renderToPipeableStream(
      <BrandContext.Provider value={brand}>
        <NonceContext.Provider value={nonce}>
          <FailedRequestContext.Provider value={failed}>
            <RemixServer context={remixContext} url={request.url} nonce={nonce} />
          </FailedRequestContext.Provider>
        </NonceContext.Provider>
      </BrandContext.Provider>,
      {
        nonce,
        onAllReady() {
          const body = withoutNuls();
          headers.set("Content-Type", "text/html; charset=utf-8");
          resolve(new Response(createReadableStreamFromReadable(body), { headers, status }));
          pipe(body);
        },
        onShellError: reject,
        // Does nothing, because Remix renders the error boundary and calls handleError.
        onError() {},
      },
    );
  });
}

/**
 * Removes the NULs that React 18 writes at the end of a block if the next character doesn't fit in whole
 * (github.com/facebook/react/pull/26228, released with React 19). HTML contains none of its own.
 */
function withoutNuls(): Transform {
  return new Transform({
    transform: (block: Buffer, _encoding, done) => done(null, block.includes(0) ? block.filter(Boolean) : block),
  });
}

/** Returns a page's status. A loader's failure takes precedence over the action's status, which Remix would use. */
function statusOf({ errors }: EntryContext["staticHandlerContext"], given: number): number {
  const [error] = Object.values(errors ?? {});
  if (error === undefined) return given;
  return isRouteErrorResponse(error) ? error.status : 500;
}

/** Logs unexpected errors of loaders, actions and renders. An aborted request is not an error. */
export function handleError(error: unknown, { request, context }: LoaderFunctionArgs | ActionFunctionArgs): void {
  if (request.signal.aborted || error instanceof Response) return;
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  logError(text, { requestId: context.requestId });
}
