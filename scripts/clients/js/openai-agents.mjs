import assert from "node:assert/strict";
import { Agent, run, setOpenAIAPI, setTracingDisabled, tool } from "@openai/agents";
import { z } from "zod";
import { check, model, sumQuestion } from "./check.mjs";

setTracingDisabled(true);
const agent = new Agent({
  name: "Assistant",
  instructions: "Be brief.",
  model,
  tools: [
    tool({
      name: "add",
      description: "Add two numbers.",
      parameters: z.object({ a: z.number(), b: z.number() }),
      execute: async ({ a, b }) => String(a + b),
    }),
  ],
});

for (const api of ["chat_completions", "responses"]) {
  setOpenAIAPI(api);

  await check("plain", `${api}: chat`, async () => {
    const result = await run(agent, "Hello from the Agents SDK");
    assert.match(result.finalOutput, /Hello from the Agents SDK/);
  });

  await check("stream", `${api}: stream`, async () => {
    const result = await run(agent, "Hello from the Agents SDK", { stream: true });
    let text = "";
    for await (const delta of result.toTextStream()) text += delta;
    await result.completed;
    assert.match(text, /Hello from the Agents SDK/);
  });

  await check("tools", `${api}: tool loop`, async () => {
    const result = await run(agent, sumQuestion);
    assert.match(result.finalOutput, /42/);
  });

  await check("tools", `${api}: tool loop, streamed`, async () => {
    const result = await run(agent, sumQuestion, { stream: true });
    let text = "";
    for await (const delta of result.toTextStream()) text += delta;
    await result.completed;
    assert.match(text, /42/);
  });

  await check("tools", `${api}: conversation`, async () => {
    const first = await run(agent, sumQuestion);
    const second = await run(agent, [...first.history, { role: "user", content: "And again" }]);
    assert.match(second.finalOutput, /And again/);
  });

  await check("structured", `${api}: structured output`, async () => {
    const outputType = z.object({ name: z.string(), age: z.number() });
    const result = await run(new Agent({ name: "Reader", model, outputType }), "Jason is 25 years old.");
    assert.equal(typeof result.finalOutput.age, "number");
  });
}
