import { createServer } from "node:http";
import { chatResponse } from "../upstream/answers.ts";

/** A call with a body above this size gets its answer after `thinkMs`, others immediately. */
const largeBytes = 64 * 1024;
const chatAnswer = chatResponse.subarray(chatResponse.indexOf("\r\n\r\n") + 4);

/**
 * Starts a model provider that reads each body to its end and then thinks. The model `demo-error-500` fails after it
 * has received the whole body.
 */
export async function startThinkingProvider(port: number, { thinkMs }: { thinkMs: number }) {
  const server = createServer((request, response) => {
    let head = "";
    request.on("data", (bytes: Buffer) => {
      if (head.length < 256) head += bytes.toString("latin1", 0, 256);
    });
    request.on("end", () => {
      const isLarge = Number(request.headers["content-length"]) > largeBytes;
      const fails = head.includes("demo-error-500");
      setTimeout(
        () =>
          response.writeHead(fails ? 500 : 200, { "content-type": "application/json" }).end(fails ? "{}" : chatAnswer),
        isLarge && !fails ? thinkMs : 0,
      );
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
