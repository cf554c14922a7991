import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";
import { check, model, sumQuestion } from "./check.mjs";

const { OPENAI_BASE_URL, OPENAI_API_KEY: apiKey } = process.env;
const client = new Anthropic({ baseURL: OPENAI_BASE_URL.replace(/\/v1$/, ""), apiKey });
const hello = [{ role: "user", content: "Hello from anthropic-node" }];
const max_tokens = 500;
const textOf = ({ content }) => content.map(({ text = "" }) => text).join("");

await check("plain", "messages", async () => {
  const message = await client.messages.create({ model, max_tokens, system: "Be brief.", messages: hello });
  assert.match(textOf(message), /Hello from anthropic-node/);
  assert.ok(message.usage.input_tokens > 0 && message._request_id);
});

await check("plain", "messages: count tokens", async () => {
  const { input_tokens } = await client.messages.countTokens({ model, messages: hello });
  assert.ok(input_tokens > 0);
});

await check("plain", "models", async () => {
  const ids = [];
  for await (const { id, type } of client.models.list()) if (type === "model") ids.push(id);
  assert.ok(ids.includes(model));
  assert.equal((await client.models.retrieve(model)).id, model);
});

await check("stream", "messages: stream", async () => {
  const stream = client.messages.stream({ model, max_tokens, messages: hello });
  let text = "";
  stream.on("text", (delta) => {
    text += delta;
  });
  const message = await stream.finalMessage();
  assert.equal(textOf(message), text);
  assert.match(text, /Hello from anthropic-node/);
});

await check("stream", "messages: stream with thinking", async () => {
  const thinking = { type: "enabled", budget_tokens: 1_024 };
  const stream = client.messages.stream({ model, max_tokens: 2_048, thinking, messages: hello });
  const { content } = await stream.finalMessage();
  assert.deepEqual(
    content.map(({ type }) => type),
    ["thinking", "text"],
  );
  const messages = [...hello, { role: "assistant", content }, { role: "user", content: "And again" }];
  assert.match(textOf(await client.messages.create({ model, max_tokens, messages })), /And again/);
});

for (const stream of [false, true]) {
  await check("tools", `messages: tool runner${stream ? ", streamed" : ""}`, async () => {
    const add = betaZodTool({
      name: "add",
      description: "Add two numbers.",
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      run: ({ a, b }) => String(a + b),
    });
    const messages = [{ role: "user", content: sumQuestion }];
    const runner = client.beta.messages.toolRunner({ model, max_tokens, messages, tools: [add], stream });
    assert.match(textOf(await runner.runUntilDone()), /42/);
  });
}

await check("structured", "messages: structured output", async () => {
  const format = zodOutputFormat(z.object({ name: z.string(), age: z.number() }));
  const message = await client.messages.parse({ model, max_tokens, messages: hello, output_config: { format } });
  assert.equal(typeof message.parsed_output.age, "number");
});
