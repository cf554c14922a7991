import type { ServerResponse } from "node:http";
import { type ScriptedProvider, startScriptedProvider } from "./scripted-provider.ts";

const head = { id: "c", object: "chat.completion.chunk", created: 1, model: "m" };
const chunk = (rest: object) => `data: ${JSON.stringify({ ...head, ...rest })}\n\n`;
const usage = { prompt_tokens: 20, completion_tokens: 30, total_tokens: 50 };

/** A provider whose streams pause after their first word until the test finishes them. */
export type PausedProvider = ScriptedProvider & { finish: () => void };

export async function startPausedProvider(): Promise<PausedProvider> {
  let paused: ServerResponse | undefined;
  const provider = await startScriptedProvider((response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(chunk({ choices: [{ index: 0, delta: { role: "assistant", content: "first " } }] }));
    paused = response;
  });
  return Object.assign(provider, {
    finish() {
      paused?.write(chunk({ choices: [{ index: 0, delta: { content: "last" } }] }));
      paused?.write(chunk({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }));
      paused?.end(`${chunk({ choices: [], usage })}data: [DONE]\n\n`);
    },
  });
}
