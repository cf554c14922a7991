import { createServer } from "node:http";

export type ThinkingAnswer = { afterMs: number; status?: number; contentType?: string; body: string | Buffer };

/**
 * Starts a model provider that reads each body to its end and then thinks.
 * @param answer returns the answer to a request, of which it receives the first 256 bytes and the length
 */
export async function startThinkingProvider(
  port: number,
  answer: (request: { head: string; bytes: number }) => ThinkingAnswer,
) {
  const server = createServer((request, response) => {
    let head = "";
    let bytes = 0;
    request.on("data", (chunk: Buffer) => {
      if (head.length < 256) head += chunk.toString("latin1", 0, 256);
      bytes += chunk.length;
    });
    request.on("end", () => {
      const { afterMs, status = 200, contentType = "application/json", body } = answer({ head, bytes });
      setTimeout(() => response.writeHead(status, { "content-type": contentType }).end(body), afterMs);
    });
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
