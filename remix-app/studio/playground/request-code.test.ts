import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { ChatBody } from "./chat-message.ts";
import { pythonLiteral, typescriptLiteral } from "./literal.ts";
import { type CodeSample, chatCode, embeddingsCode, speechCode } from "./request-code.ts";

const weather = {
  type: "function",
  function: {
    name: "get-weather",
    description: 'Tells the weather, in "words"',
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
const hostile = `It's “quoted” "twice" \\ \`\${x}\` $(id) \n new line — 日本 😀 %s {} </script>`;
const conversation: ChatBody = {
  model: "demo-chat",
  messages: [
    { role: "system", content: "Be brief.\nAlways." },
    { role: "user", content: hostile },
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c1", type: "function", function: { name: "get-weather", arguments: '{"city":"Rome"}' } }],
    },
    { role: "tool", tool_call_id: "c1", content: "sunny, 25 °C" },
    { role: "assistant", content: "It is sunny." },
    { role: "user", content: "Thanks" },
  ],
  stream: true,
  temperature: 0.7,
  max_completion_tokens: 256,
  tools: [weather],
};
const schema = { type: "object", properties: { ok: { type: "boolean" }, none: { type: "null" } }, required: ["ok"] };
const hello: ChatBody = { model: "demo-chat", messages: [{ role: "user", content: "Hello" }] };
const bodies: [string, ChatBody][] = [
  ["a conversation with tools", conversation],
  ["a plain question", hello],
  [
    "structured output",
    { ...hello, response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } } },
  ],
  [
    "a loose schema",
    { ...hello, response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: false } } },
  ],
  ["a JSON object", { ...hello, stream: true, response_format: { type: "json_object" } }],
];

let received: { url: string; authorization: string; body: unknown }[] = [];
let baseUrl = "";
const server = createServer(async (request, response) => {
  const body = await textOf(request);
  const url = request.url ?? "";
  received.push({ url, authorization: request.headers.authorization ?? "", body: JSON.parse(body) });
  if (url.endsWith("/speech")) return response.writeHead(200, { "content-type": "audio/wav" }).end("RIFF");
  if (url.endsWith("/embeddings")) {
    const data = [{ object: "embedding", index: 0, embedding: [0.5] }];
    return response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ object: "list", data }));
  }
  const named = { id: "1", created: 1, model: "demo-chat" };
  if (JSON.parse(body).stream) {
    const chunk = {
      ...named,
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta: { content: '{"ok":true}' } }],
    };
    const end = { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] };
    return response
      .writeHead(200, { "content-type": "text/event-stream" })
      .end(`data: ${JSON.stringify(chunk)}\n\ndata: ${JSON.stringify(end)}\n\ndata: [DONE]\n\n`);
  }
  const choices = [{ index: 0, message: { role: "assistant", content: '{"ok":true}' }, finish_reason: "stop" }];
  response
    .writeHead(200, { "content-type": "application/json" })
    .end(JSON.stringify({ ...named, object: "chat.completion", choices }));
});
const folder = mkdtempSync(path.join(tmpdir(), "request-code-"));

beforeAll(async () => {
  symlinkSync(path.resolve("node_modules"), path.join(folder, "node_modules"));
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  vi.stubEnv("GATEHOUSE_API_KEY", "placeholder");
});
beforeEach(() => {
  received = [];
});
afterAll(() => {
  server.close();
  rmSync(folder, { recursive: true });
  vi.unstubAllEnvs();
});

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

function codeOf(samples: CodeSample[], label: string): string {
  return samples.find((sample) => sample.label === label)?.code ?? "";
}

let modules = 0;

/** Runs a TypeScript snippet in which only the output path is changed. */
async function run(code: string): Promise<unknown> {
  modules += 1;
  const file = path.join(folder, `snippet-${modules}.mjs`);
  const placed = code.replaceAll('writeFile("speech', `writeFile("${folder}/speech`);
  writeFileSync(file, placed);
  const said = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  const logged = vi.spyOn(console, "log").mockReturnValue();
  try {
    await import(/* @vite-ignore */ pathToFileURL(file).href);
  } finally {
    said.mockRestore();
    logged.mockRestore();
  }
  expect(received).toHaveLength(1);
  expect(received[0]?.authorization).toBe("Bearer placeholder");
  return received[0]?.body;
}

/** Returns the data of a curl command as a shell passes it on, byte for byte. */
function dataOfCurl(code: string): unknown {
  const script = `curl() { while [ $# -gt 0 ]; do [ "$1" = -d ] && printf %s "$2"; shift; done; }\n${code}`;
  const { stdout, status } = spawnSync("sh", ["-c", script], { encoding: "utf8" });
  expect(status).toBe(0);
  return JSON.parse(stdout);
}

/** Parses a Python literal limited to JSON's types. */
function readPython(code: string): unknown {
  const words: Record<string, string> = { True: "true", False: "false", None: "null" };
  const json = code
    .replaceAll(/"(?:[^"\\]|\\.)*"|True|False|None/g, (token) => words[token] ?? token)
    .replaceAll(/"(?:[^"\\]|\\.)*"|,(?=\s*[\]}])/g, (token) => (token === "," ? "" : token));
  return JSON.parse(json);
}

/** Evaluates a TypeScript literal. */
function readTypescript(code: string): unknown {
  return JSON.parse(runInNewContext(`JSON.stringify((${code}))`));
}

/** Returns the keyword arguments of the only call in a Python snippet. */
function argumentsOfPython(code: string): Record<string, unknown> {
  const [, call = ""] = /create\(\n([\s\S]*?)^\)/m.exec(code) ?? [];
  const starts = [...call.matchAll(/^ {4}(\w+)=/gm)];
  return Object.fromEntries(
    starts.map((start, index) => {
      const from = start.index + start[0].length;
      const text = call
        .slice(from, starts[index + 1]?.index)
        .trim()
        .replace(/,$/, "");
      return [start[1] ?? "", readPython(text)];
    }),
  );
}

describe.each(bodies)("generated code for %s", (_, body) => {
  test("the generated code for curl sends exactly the form's body", () => {
    expect(dataOfCurl(codeOf(chatCode(body, baseUrl), "curl"))).toEqual(body);
  });

  test("the generated code for Python sends exactly the form's body", () => {
    expect(argumentsOfPython(codeOf(chatCode(body, baseUrl), "Python"))).toEqual(body);
  });

  test("the generated code for TypeScript sends exactly the form's body", async () => {
    expect(await run(codeOf(chatCode(body, baseUrl), "TypeScript"))).toEqual(body);
  });
});

describe("generated code for speech and embeddings", () => {
  const speech = { model: "demo-speech", input: hostile, voice: "Kore", response_format: "wav" } as const;
  const embeddings = { model: "demo-embedding", input: ["one", hostile] };

  test("the generated code for speech and embeddings sends exactly the bodies of their forms", async () => {
    for (const [body, samples] of [
      [speech, speechCode(speech, baseUrl)],
      [embeddings, embeddingsCode(embeddings, baseUrl)],
    ] as const) {
      received = [];
      expect(dataOfCurl(codeOf(samples, "curl"))).toEqual(body);
      expect(argumentsOfPython(codeOf(samples, "Python"))).toEqual(body);
      const { encoding_format: _, ...sent } = (await run(codeOf(samples, "TypeScript"))) as Record<string, unknown>;
      expect(sent).toEqual(body);
    }
  });
});

describe("a literal in generated code", () => {
  test("for any value, the literal in generated code evaluates to that value", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (given) => {
        const value = JSON.parse(JSON.stringify(given));
        expect(readPython(pythonLiteral(value))).toEqual(value);
        expect(readTypescript(typescriptLiteral(value))).toEqual(value);
      }),
    );
  });

  test("a literal in generated code keeps a property named __proto__", () => {
    const value = JSON.parse('{"__proto__": {"a": 1}}');
    expect(JSON.stringify(readTypescript(typescriptLiteral(value)))).toBe(JSON.stringify(value));
  });
});
