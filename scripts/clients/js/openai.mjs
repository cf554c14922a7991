import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodFunction, zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { toResponseInputItems } from "openai/lib/responses/ResponseInputItems";
import { z } from "zod";
import { check, model, sumQuestion } from "./check.mjs";

const client = new OpenAI();
const hello = [{ role: "user", content: "Hello from openai-node" }];
const Person = z.object({ name: z.string(), age: z.number() });
const add = ({ a, b }) => a + b;
const tools = [
  zodFunction({
    name: "add",
    description: "Add two numbers.",
    parameters: z.object({ a: z.number(), b: z.number() }),
    function: add,
  }),
];

await check("plain", "chat", async () => {
  const completion = await client.chat.completions.create({ model, messages: hello });
  assert.match(completion.choices[0].message.content, /Hello from openai-node/);
  assert.ok(completion.usage.total_tokens > 0);
});

await check("stream", "chat: stream", async () => {
  const stream = await client.chat.completions.create({ model, messages: hello, stream: true });
  let text = "";
  for await (const chunk of stream) text += chunk.choices[0].delta.content ?? "";
  assert.match(text, /Hello from openai-node/);
});

await check("stream", "chat: stream with usage", async () => {
  const stream_options = { include_usage: true };
  const stream = await client.chat.completions.create({ model, messages: hello, stream: true, stream_options });
  let text = "";
  let usage;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    if (chunk.usage) usage = chunk.usage;
  }
  assert.match(text, /Hello from openai-node/);
  assert.ok(usage.total_tokens > 0);
});

await check("stream", "chat: stream helper", async () => {
  const stream = client.chat.completions.stream({ model, messages: hello });
  let text = "";
  stream.on("content", (delta) => {
    text += delta;
  });
  const completion = await stream.finalChatCompletion();
  assert.equal(completion.choices[0].message.content, text);
  assert.match(text, /Hello from openai-node/);
});

for (const stream of [false, true]) {
  await check("tools", `chat: tool loop${stream ? ", streamed" : ""}`, async () => {
    const runner = client.chat.completions.runTools({
      model,
      messages: [{ role: "user", content: sumQuestion }],
      tools,
      stream,
    });
    assert.match(await runner.finalContent(), /42/);
    assert.deepEqual(
      runner.messages.map(({ role }) => role),
      ["user", "assistant", "tool", "assistant"],
    );
  });
}

await check("tools", "chat: conversation", async () => {
  const messages = [{ role: "system", content: "Be brief." }, ...hello];
  const first = await client.chat.completions.create({ model, messages });
  messages.push(first.choices[0].message, { role: "user", content: "And again" });
  const second = await client.chat.completions.create({ model, messages });
  assert.match(second.choices[0].message.content, /And again/);
});

await check("plain", "responses", async () => {
  const response = await client.responses.create({
    model,
    instructions: "Be brief.",
    input: "Hello from openai-node",
  });
  assert.match(response.output_text, /Hello from openai-node/);
});

await check("stream", "responses: stream", async () => {
  const stream = await client.responses.create({ model, input: "Hello from openai-node", stream: true });
  let text = "";
  for await (const event of stream) if (event.type === "response.output_text.delta") text += event.delta;
  assert.match(text, /Hello from openai-node/);
});

await check("tools", "responses: tool loop", async () => {
  const input = [{ role: "user", content: sumQuestion }];
  const parameters = {
    type: "object",
    properties: { a: { type: "number" }, b: { type: "number" } },
    required: ["a", "b"],
    additionalProperties: false,
  };
  const functions = [{ type: "function", name: "add", description: "Add two numbers.", parameters, strict: true }];
  let response = await client.responses.create({ model, input, tools: functions });
  input.push(...toResponseInputItems(response.output));
  for (const item of response.output) {
    if (item.type !== "function_call") continue;
    const output = JSON.stringify({ sum: add(JSON.parse(item.arguments)) });
    input.push({ type: "function_call_output", call_id: item.call_id, output });
  }
  response = await client.responses.create({ model, input, tools: functions });
  assert.match(response.output_text, /42/);
});

await check("tools", "responses: conversation", async () => {
  const input = [...hello];
  const first = await client.responses.create({ model, input, store: false });
  input.push(...toResponseInputItems(first.output), { role: "user", content: "And again" });
  const second = await client.responses.create({ model, input, store: false });
  assert.match(second.output_text, /And again/);
});

await check("structured", "chat: structured output", async () => {
  const response_format = zodResponseFormat(Person, "person");
  const completion = await client.chat.completions.parse({ model, messages: hello, response_format });
  assert.equal(typeof completion.choices[0].message.parsed.age, "number");
});

await check("structured", "responses: structured output", async () => {
  const response = await client.responses.parse({
    model,
    input: "Hello from openai-node",
    text: { format: zodTextFormat(Person, "person") },
  });
  assert.equal(typeof response.output_parsed.age, "number");
});
