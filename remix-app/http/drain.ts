import type { Server, ServerResponse } from "node:http";

/**
 * Tracks a server's responses, so that it can stop without cutting off streams.
 * @returns a function that stops the server: it accepts no connection, gives pending requests `requestMs` until their
 * response begins, and lets responses that have begun take `streamMs` in all
 */
export function createDrain(
  server: Server,
  { requestMs, streamMs }: { requestMs: number; streamMs: number },
): () => Promise<void> {
  const pending = new Set<ServerResponse>();
  server.on("request", (_, response) => {
    pending.add(response);
    response.once("close", () => pending.delete(response));
  });

  function endRequests(): void {
    const waiting = [...pending].filter(({ headersSent }) => !headersSent);
    // Without a stream, also ends connections whose request has not arrived.
    if (waiting.length === pending.size) server.closeAllConnections();
    for (const response of waiting) response.destroy();
  }

  return () =>
    new Promise((resolve) => {
      const requests = setTimeout(endRequests, requestMs);
      const streams = setTimeout(() => server.closeAllConnections(), streamMs);
      server.close(() => {
        clearTimeout(requests);
        clearTimeout(streams);
        resolve();
      });
      server.closeIdleConnections();
    });
}
