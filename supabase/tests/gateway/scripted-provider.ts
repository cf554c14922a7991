import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** How a scripted provider answers a call; `stream` is what the call requested. */
export type Script = (response: ServerResponse, call: { stream: boolean; request: IncomingMessage }) => void;

/** A model provider on loopback that answers as its script specifies. A test may change the script between calls. */
export type ScriptedProvider = {
  url: string;
  script: Script;
  calls: number;
  /** The request bodies, in order. */
  bodies: Record<string, unknown>[];
  close: () => void;
};

const usage = { prompt_tokens: 20, completion_tokens: 30, total_tokens: 50 };
const head = { id: "c", created: 1, model: "m" };

/**
 * Answers like OpenAI, in one response or streamed, with a usage of 20 input and 30 output tokens.
 * @param type the content type of a stream; none if empty
 */
export const answerAs =
  (type: string): Script =>
  (response, { stream }) => {
    if (!stream) {
      const choice = { index: 0, finish_reason: "stop", message: { role: "assistant", content: "hi" } };
      const body = JSON.stringify({ ...head, object: "chat.completion", choices: [choice], usage });
      response.writeHead(200, { "content-type": "application/json", "x-request-id": "req_good" }).end(body);
      return;
    }
    const chunk = (rest: object) =>
      `data: ${JSON.stringify({ ...head, object: "chat.completion.chunk", ...rest })}\n\n`;
    response.writeHead(200, { ...(type ? { "content-type": type } : {}), "x-request-id": "req_good" });
    response.write(chunk({ choices: [{ index: 0, delta: { role: "assistant", content: "hi" } }] }));
    response.write(chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }));
    response.end(`${chunk({ choices: [], usage })}data: [DONE]\n\n`);
  };

export const answerWell = answerAs("text/event-stream");

/** Answers with a status and an error. */
export const answerError =
  (status: number, error: object = {}, headers: Record<string, string> = {}): Script =>
  (response) => {
    const type = { "content-type": "application/json", "x-request-id": "req_bad" };
    response.writeHead(status, { ...type, ...headers }).end(JSON.stringify({ error }));
  };

/** Accepts the request, and never answers. */
export const hang: Script = () => {};

export async function startScriptedProvider(script: Script = answerWell): Promise<ScriptedProvider> {
  const server = createServer(async (request, response) => {
    const body = JSON.parse((await request.toArray()).join(""));
    provider.calls += 1;
    provider.bodies.push(body);
    provider.script(response, { stream: body.stream === true, request });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const provider: ScriptedProvider = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    script,
    calls: 0,
    bodies: [],
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
  return provider;
}
