import { Agent, request } from "node:http";
import type { Outcome } from "./judge.ts";
import type { MadeRequest } from "./requests.ts";

/** No response may take longer, even on a busy machine. */
const deadlineMs = 15_000;

const agent = new Agent({ keepAlive: true, maxSockets: 32 });
const maxKept = 400_000;

/**
 * Sends a request byte for byte as generated. `fetch` would change or reject some requests.
 * @returns undefined if no response came in time
 */
export function send(origin: string, { method, path, headers, body }: MadeRequest): Promise<Outcome["answer"]> {
  const { hostname, port, pathname } = new URL(origin);
  return new Promise((resolve) => {
    const done = (answer: Outcome["answer"]) => {
      clearTimeout(timer);
      resolve(answer);
    };
    const call = request(
      {
        agent,
        hostname,
        port,
        method,
        path: `${pathname.replace(/\/$/, "")}${path}`,
        headers: { ...headers, ...(body ? { "content-length": body.length } : {}) },
      },
      (response) => {
        const chunks: Buffer[] = [];
        let length = 0;
        response.on("data", (chunk: Buffer) => {
          length += chunk.length;
          if (length <= maxKept) chunks.push(chunk);
        });
        response.once("error", () => done(undefined));
        response.once("end", () =>
          done({
            status: response.statusCode ?? 0,
            requestId: (response.headers["x-request-id"] as string | undefined) ?? null,
            contentType: response.headers["content-type"] ?? "",
            text: Buffer.concat(chunks).toString(),
          }),
        );
      },
    );
    const timer = setTimeout(() => call.destroy(), deadlineMs);
    call.once("error", () => done(undefined));
    call.end(body);
  });
}

/** Closes all connections of `send`. */
export function closeConnections(): void {
  agent.destroy();
}
