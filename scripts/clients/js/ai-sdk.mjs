import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount, streamText, tool } from "ai";
import { z } from "zod";
import { check, model, sumQuestion } from "./check.mjs";

const { OPENAI_BASE_URL: baseURL, OPENAI_API_KEY: apiKey } = process.env;
const tools = {
  add: tool({
    description: "Add two numbers.",
    inputSchema: z.object({ a: z.number(), b: z.number() }),
    execute: async ({ a, b }) => ({ sum: a + b }),
  }),
};

/** Runs the same checks with each provider package. `settings` are added to every call. */
async function checkProvider(name, { languageModel, settings = {} }) {
  await check(`${name}: chat`, async () => {
    const { text, usage } = await generateText({ model: languageModel, prompt: "Hello from the AI SDK", ...settings });
    assert.match(text, /Hello from the AI SDK/);
    assert.ok(usage.totalTokens > 0);
  });

  await check(`${name}: stream`, async () => {
    const result = streamText({ model: languageModel, prompt: "Hello from the AI SDK", ...settings });
    let text = "";
    for await (const textPart of result.textStream) text += textPart;
    assert.match(text, /Hello from the AI SDK/);
    assert.equal(await result.finishReason, "stop");
  });

  await check(`${name}: tool loop`, async () => {
    const { text, steps } = await generateText({
      model: languageModel,
      tools,
      stopWhen: isStepCount(5),
      prompt: sumQuestion,
      ...settings,
    });
    assert.match(text, /42/);
    assert.equal(steps.length, 2);
  });

  await check(`${name}: tool loop, streamed`, async () => {
    const result = streamText({
      model: languageModel,
      tools,
      stopWhen: isStepCount(5),
      prompt: sumQuestion,
      ...settings,
    });
    let text = "";
    for await (const textPart of result.textStream) text += textPart;
    assert.match(text, /42/);
  });

  await check(`${name}: conversation`, async () => {
    const call = { model: languageModel, tools, stopWhen: isStepCount(5), instructions: "Be brief.", ...settings };
    const messages = [{ role: "user", content: sumQuestion }];
    const first = await generateText({ ...call, messages });
    messages.push(...first.responseMessages, { role: "user", content: "And again" });
    const second = await generateText({ ...call, messages });
    assert.match(second.text, /And again/);
  });
}

const compatible = (settings) => createOpenAICompatible({ name: "gatehouse", baseURL, apiKey, ...settings })(model);
const openai = createOpenAI({ baseURL, apiKey });

await checkProvider("openai-compatible", { languageModel: compatible() });
await checkProvider("openai-compatible with includeUsage", { languageModel: compatible({ includeUsage: true }) });
await checkProvider("openai, chat", { languageModel: openai.chat(model) });
await checkProvider("openai, responses with store: false", {
  languageModel: openai(model),
  settings: { providerOptions: { openai: { store: false } } },
});
