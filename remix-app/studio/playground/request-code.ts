import { aiSdkChat } from "./ai-sdk-code.ts";
import type { ChatBody } from "./chat-message.ts";
import { pythonLiteral, typescriptLiteral } from "./literal.ts";

export interface CodeSample {
  label: string;
  code: string;
}

export interface SpeechBody {
  model: string;
  input: string;
  voice: string;
  response_format: "wav" | "pcm";
}

export interface EmbeddingsBody {
  model: string;
  input: string[];
}

/**
 * Returns a chat request as code in four variants. Each reads the key from the environment and sends exactly this body.
 */
export function chatCode(body: ChatBody, baseUrl: string): CodeSample[] {
  const call = "client.chat.completions.create";
  const python = body.stream
    ? `stream = ${pythonCall(call, body)}
for chunk in stream:
    if chunk.choices and chunk.choices[0].delta.content:
        print(chunk.choices[0].delta.content, end="", flush=True)`
    : `answer = ${pythonCall(call, body)}
print(answer.choices[0].message.content)`;
  const typescript = body.stream
    ? `const stream = await ${call}(${typescriptLiteral(body)});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta?.content ?? "");
}`
    : `const answer = await ${call}(${typescriptLiteral(body)});
console.log(answer.choices[0].message.content);`;
  return [
    { label: "curl", code: curl(`${baseUrl}/chat/completions`, body, body.stream ? ["-N"] : []) },
    { label: "Python", code: `${pythonClient(baseUrl)}\n${python}` },
    { label: "TypeScript", code: `${typescriptClient(baseUrl)}\n${typescript}` },
    { label: "AI SDK", code: aiSdkChat(body, baseUrl) },
  ];
}

export function speechCode(body: SpeechBody, baseUrl: string): CodeSample[] {
  const call = "client.audio.speech.create";
  const file = `speech.${body.response_format}`;
  return [
    { label: "curl", code: curl(`${baseUrl}/audio/speech`, body, ["--output", file]) },
    {
      label: "Python",
      code: `${pythonClient(baseUrl)}\nspeech = ${pythonCall(call, body)}\nspeech.write_to_file("${file}")`,
    },
    {
      label: "TypeScript",
      code: `import { writeFile } from "node:fs/promises";
${typescriptClient(baseUrl)}
const speech = await ${call}(${typescriptLiteral(body)});
await writeFile("${file}", new Uint8Array(await speech.arrayBuffer()));`,
    },
  ];
}

/** Returns an embeddings request as code. The `openai` clients request base64 by default, but still return numbers. */
export function embeddingsCode(body: EmbeddingsBody, baseUrl: string): CodeSample[] {
  const call = "client.embeddings.create";
  return [
    { label: "curl", code: curl(`${baseUrl}/embeddings`, body) },
    {
      label: "Python",
      code: `${pythonClient(baseUrl)}\nanswer = ${pythonCall(call, body)}\nprint(len(answer.data[0].embedding))`,
    },
    {
      label: "TypeScript",
      code: `${typescriptClient(baseUrl)}
const answer = await ${call}(${typescriptLiteral(body)});
console.log(answer.data[0].embedding.length);`,
    },
  ];
}

/** Returns a command that posts the body, with the key from the environment. */
export function curl(url: string, body: object, options: string[] = []): string {
  const json = JSON.stringify(body, null, 2).replaceAll("'", `'\\''`);
  return [
    ["curl", ...options, url].join(" "),
    '-H "Authorization: Bearer $GATEHOUSE_API_KEY"',
    "-H 'Content-Type: application/json'",
    `-d '${json}'`,
  ].join(" \\\n  ");
}

function pythonClient(baseUrl: string): string {
  return `import os
from openai import OpenAI

client = OpenAI(base_url="${baseUrl}", api_key=os.environ["GATEHOUSE_API_KEY"])
`;
}

function pythonCall(call: string, body: object): string {
  const named = Object.entries(body).map(([name, value]) => `    ${name}=${pythonLiteral(value, 4)},\n`);
  return `${call}(\n${named.join("")})`;
}

function typescriptClient(baseUrl: string): string {
  return `import OpenAI from "openai";

const client = new OpenAI({
  baseURL: "${baseUrl}",
  apiKey: process.env.GATEHOUSE_API_KEY,
});
`;
}
