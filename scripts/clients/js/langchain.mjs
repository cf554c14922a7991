import assert from "node:assert/strict";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent, HumanMessage, providerStrategy, SystemMessage, tool } from "langchain";
import { z } from "zod";
import { check, model, sumQuestion } from "./check.mjs";

const settings = {
  model,
  apiKey: process.env.OPENAI_API_KEY,
  configuration: { baseURL: process.env.OPENAI_BASE_URL },
};
const llm = new ChatOpenAI(settings);
const llmOfResponses = new ChatOpenAI({ ...settings, useResponsesApi: true });
const add = tool(({ a, b }) => String(a + b), {
  name: "add",
  description: "Add two numbers.",
  schema: z.object({ a: z.number(), b: z.number() }),
});
const agent = createAgent({ model: llm, tools: [add], systemPrompt: "Be brief." });

await check("plain", "chat", async () => {
  const answer = await llm.invoke([new SystemMessage("Be brief."), new HumanMessage("Hello from LangChain")]);
  assert.match(answer.text, /Hello from LangChain/);
  assert.ok(answer.usage_metadata.total_tokens > 0);
});

await check("stream", "stream", async () => {
  let text = "";
  let usage;
  for await (const chunk of await llm.stream("Hello from LangChain")) {
    text += chunk.text;
    usage = chunk.usage_metadata ?? usage;
  }
  assert.match(text, /Hello from LangChain/);
  assert.ok(usage.total_tokens > 0);
});

await check("stream", "stream without usage", async () => {
  const plain = new ChatOpenAI({ ...settings, streamUsage: false });
  let text = "";
  for await (const chunk of await plain.stream("Hello from LangChain")) text += chunk.text;
  assert.match(text, /Hello from LangChain/);
});

await check("tools", "tool loop", async () => {
  const result = await agent.invoke({ messages: [{ role: "user", content: sumQuestion }] });
  assert.match(result.messages.at(-1).text, /42/);
});

await check("tools", "tool loop, streamed", async () => {
  let text = "";
  const stream = await agent.stream({ messages: [{ role: "user", content: sumQuestion }] }, { streamMode: "messages" });
  for await (const [token, metadata] of stream) if (metadata.langgraph_node !== "tools") text += token.text;
  assert.match(text, /42/);
});

await check("tools", "conversation", async () => {
  const first = await agent.invoke({ messages: [{ role: "user", content: sumQuestion }] });
  const second = await agent.invoke({ messages: [...first.messages, { role: "user", content: "And again" }] });
  assert.match(second.messages.at(-1).text, /And again/);
});

await check("tools", "responses: tool loop and conversation", async () => {
  const agentOfResponses = createAgent({ model: llmOfResponses, tools: [add] });
  const first = await agentOfResponses.invoke({ messages: [{ role: "user", content: sumQuestion }] });
  assert.match(first.messages.at(-1).text, /42/);
  const second = await agentOfResponses.invoke({
    messages: [...first.messages, { role: "user", content: "And again" }],
  });
  assert.match(second.messages.at(-1).text, /And again/);
});

for (const [api, chatModel] of Object.entries({ chat: llm, responses: llmOfResponses })) {
  await check("structured", `${api}: structured output`, async () => {
    const schema = z.object({ name: z.string(), age: z.number() });
    const person = await chatModel.withStructuredOutput(schema).invoke("Jason is 25 years old.");
    assert.equal(typeof person.age, "number");
  });
}

await check("structured", "agent with a response format", async () => {
  const responseFormat = providerStrategy(z.object({ name: z.string(), age: z.number() }));
  const structured = createAgent({ model: llm, tools: [add], responseFormat });
  const { structuredResponse } = await structured.invoke({ messages: [{ role: "user", content: "Jason is 25." }] });
  assert.equal(typeof structuredResponse.age, "number");
});
