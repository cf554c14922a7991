import assert from "node:assert/strict";
import { Agent } from "@mastra/core/agent";
import { createTool } from "@mastra/core/tools";
import { z } from "zod";
import { check, model, sumQuestion } from "./check.mjs";

const agent = new Agent({
  id: "assistant",
  name: "Assistant",
  instructions: "Be brief.",
  model: {
    id: `gatehouse/${model}`,
    url: process.env.OPENAI_BASE_URL,
    apiKey: process.env.OPENAI_API_KEY,
  },
  tools: {
    add: createTool({
      id: "add",
      description: "Add two numbers.",
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      outputSchema: z.object({ sum: z.number() }),
      execute: async ({ a, b }) => ({ sum: a + b }),
    }),
  },
});

await check("plain", "chat", async () => {
  const { text } = await agent.generate("Hello from Mastra");
  assert.match(text, /Hello from Mastra/);
});

await check("stream", "stream", async () => {
  const stream = await agent.stream("Hello from Mastra");
  let text = "";
  for await (const chunk of stream.textStream) text += chunk;
  assert.match(text, /Hello from Mastra/);
});

await check("tools", "tool loop", async () => {
  const { text } = await agent.generate(sumQuestion);
  assert.match(text, /42/);
});

await check("tools", "tool loop, streamed", async () => {
  const stream = await agent.stream(sumQuestion);
  let text = "";
  for await (const chunk of stream.textStream) text += chunk;
  assert.match(text, /42/);
});

await check("tools", "conversation", async () => {
  const first = await agent.generate(sumQuestion);
  const second = await agent.generate([...first.messages, { role: "user", content: "And again" }]);
  assert.match(second.text, /And again/);
});

await check("structured", "structured output", async () => {
  const schema = z.object({ name: z.string(), age: z.number() });
  const { object } = await agent.generate("Jason is 25 years old.", { structuredOutput: { schema } });
  assert.equal(typeof object.age, "number");
});
