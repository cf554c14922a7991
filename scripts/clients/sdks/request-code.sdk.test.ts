import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { ChatBody } from "../../../remix-app/studio/playground/chat-message.ts";
import { chatCode } from "../../../remix-app/studio/playground/request-code.ts";
import { installSdks } from "./packages.ts";

const hello: ChatBody = { model: "demo-chat", messages: [{ role: "user", content: `Hello "you" — 日本 \\ \${x}` }] };
const schema = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] };
const bodies: [string, ChatBody][] = [
  ["a plain question", hello],
  [
    "a conversation with tools",
    {
      ...hello,
      messages: [
        { role: "system", content: "Be brief.\nAlways." },
        ...hello.messages,
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "c1", type: "function", function: { name: "get-weather", arguments: '{"city":"Rome"}' } }],
        },
        { role: "tool", tool_call_id: "c1", content: "sunny, 25 °C" },
        { role: "user", content: "Thanks" },
      ],
      stream: true,
      temperature: 0.7,
      max_completion_tokens: 256,
      tools: [
        { type: "function", function: { name: "get-weather", description: "Tells the weather", parameters: schema } },
      ],
    },
  ],
  ...[true, false].map((strict): [string, ChatBody] => [
    strict ? "structured output" : "a loose schema",
    { ...hello, response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict } } },
  ]),
  ["a JSON object", { ...hello, stream: true, response_format: { type: "json_object" } }],
];

const named = { id: "1", created: 1, model: "demo-chat" };
const folder = mkdtempSync(path.join(tmpdir(), "request-code-"));
let received: unknown[] = [];
const server = createServer(async (request, response) => {
  const body = JSON.parse(await text(request)) as { stream?: boolean };
  received.push(body);
  const content = '{"ok":true}';
  if (body.stream) {
    const chunk = { ...named, object: "chat.completion.chunk", choices: [{ index: 0, delta: { content } }] };
    const last = { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] };
    const events = [JSON.stringify(chunk), JSON.stringify(last), "[DONE]"].map((data) => `data: ${data}\n\n`);
    return response.writeHead(200, { "content-type": "text/event-stream" }).end(events.join(""));
  }
  const choices = [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }];
  const answer = JSON.stringify({ ...named, object: "chat.completion", choices });
  return response.writeHead(200, { "content-type": "application/json" }).end(answer);
});

beforeAll(async () => {
  symlinkSync(path.resolve(await installSdks(), "node_modules"), path.join(folder, "node_modules"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  vi.stubEnv("GATEHOUSE_API_KEY", "placeholder");
});
afterAll(() => {
  server.close();
  rmSync(folder, { recursive: true });
  vi.unstubAllEnvs();
});

test.for(bodies)("the generated code for the AI SDK sends %s under the SDK's parameter names", async ([name, body]) => {
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const file = path.join(folder, `${name.replaceAll(" ", "-")}.mjs`);
  writeFileSync(file, chatCode(body, baseUrl).find(({ label }) => label === "AI SDK")?.code ?? "");
  received = [];
  const silenced = [
    vi.spyOn(process.stdout, "write").mockReturnValue(true),
    vi.spyOn(console, "log").mockReturnValue(),
  ];
  try {
    await import(/* @vite-ignore */ pathToFileURL(file).href);
  } finally {
    for (const spy of silenced) spy.mockRestore();
  }
  expect(received).toHaveLength(1);
  const { max_tokens, tool_choice, stream_options: _, ...rest } = received[0] as Record<string, unknown>;
  expect(tool_choice ?? "auto").toBe("auto");
  expect({ ...rest, ...(max_tokens === undefined ? {} : { max_completion_tokens: max_tokens }) }).toEqual(body);
});
