import { PassThrough } from "node:stream";
import { createReadableStreamFromReadable } from "@remix-run/node";
import { RemixServer } from "@remix-run/react";
import type { ActionFunctionArgs, AppLoadContext, EntryContext, LoaderFunctionArgs } from "@remix-run/server-runtime";
import { renderToPipeableStream } from "react-dom/server";
import { NonceContext } from "./ui/nonce.ts";

const streamTimeoutMs = 5_000;

/** Renders a page. The answer begins once the shell is ready, and a page that takes too long is cut. */
export default function handleRequest(
  request: Request,
  status: number,
  headers: Headers,
  remixContext: EntryContext,
  { nonce, requestId }: AppLoadContext,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    let answered = false;
    const { pipe, abort } = renderToPipeableStream(
      <NonceContext.Provider value={nonce}>
        <RemixServer context={remixContext} url={request.url} abortDelay={streamTimeoutMs} nonce={nonce} />
      </NonceContext.Provider>,
      {
        nonce,
        onShellReady() {
          answered = true;
          const body = new PassThrough();
          headers.set("Content-Type", "text/html; charset=utf-8");
          resolve(new Response(createReadableStreamFromReadable(body), { status, headers }));
          pipe(body);
        },
        onShellError: reject,
        onError(error) {
          if (answered) logError(error, requestId);
        },
      },
    );
    setTimeout(abort, streamTimeoutMs + 1_000).unref();
  });
}

/** Logs what a loader, an action or a render threw without meaning to; an aborted request is nobody's error. */
export function handleError(error: unknown, { request, context }: LoaderFunctionArgs | ActionFunctionArgs): void {
  if (!request.signal.aborted) logError(error, context.requestId);
}

function logError(error: unknown, requestId: string): void {
  console.error(
    `error request=${requestId} ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
  );
}
