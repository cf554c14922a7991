import assert from "node:assert/strict";
import { z } from "zod";
import { check, model, sumQuestion } from "./check.mjs";

/** "-6" selects the packages installed under names that end in -6, and "" the current ones. */
const suffix = process.argv[2] ?? "";
const { createOpenAI } = await import(`@ai-sdk/openai${suffix}`);
const { createOpenAICompatible } = await import(`@ai-sdk/openai-compatible${suffix}`);
const { generateText, Output, stepCountIs, streamText, tool } = await import(`ai${suffix}`);

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
  await check("plain", `${name}: chat`, async () => {
    const { text, usage } = await generateText({ model: languageModel, prompt: "Hello from the AI SDK", ...settings });
    assert.match(text, /Hello from the AI SDK/);
    assert.ok(usage.totalTokens > 0);
  });

  await check("stream", `${name}: stream`, async () => {
    const result = streamText({ model: languageModel, prompt: "Hello from the AI SDK", ...settings });
    let text = "";
    for await (const textPart of result.textStream) text += textPart;
    assert.match(text, /Hello from the AI SDK/);
    assert.equal(await result.finishReason, "stop");
  });

  await check("tools", `${name}: tool loop`, async () => {
    const { text, steps } = await generateText({
      model: languageModel,
      tools,
      stopWhen: stepCountIs(5),
      prompt: sumQuestion,
      ...settings,
    });
    assert.match(text, /42/);
    assert.equal(steps.length, 2);
  });

  await check("tools", `${name}: tool loop, streamed`, async () => {
    const result = streamText({
      model: languageModel,
      tools,
      stopWhen: stepCountIs(5),
      prompt: sumQuestion,
      ...settings,
    });
    let text = "";
    for await (const textPart of result.textStream) text += textPart;
    assert.match(text, /42/);
  });

  await check("tools", `${name}: conversation`, async () => {
    const call = { model: languageModel, tools, stopWhen: stepCountIs(5), system: "Be brief.", ...settings };
    const messages = [{ role: "user", content: sumQuestion }];
    const first = await generateText({ ...call, messages });
    messages.push(...first.response.messages, { role: "user", content: "And again" });
    const second = await generateText({ ...call, messages });
    assert.match(second.text, /And again/);
  });

  await check("structured", `${name}: structured output`, async () => {
    const schema = z.object({ name: z.string(), age: z.number() });
    const call = { model: languageModel, output: Output.object({ schema }), prompt: "Jason is 25.", ...settings };
    const { output } = await generateText(call);
    assert.equal(typeof output.age, "number");
  });
}

const compatible = (settings) => createOpenAICompatible({ name: "gatehouse", baseURL, apiKey, ...settings })(model);
const openai = createOpenAI({ baseURL, apiKey });

await checkProvider("openai-compatible", { languageModel: compatible({ supportsStructuredOutputs: true }) });
await checkProvider("openai-compatible with includeUsage", {
  languageModel: compatible({ includeUsage: true, supportsStructuredOutputs: true }),
});
await checkProvider("openai, chat", { languageModel: openai.chat(model) });
await checkProvider("openai, responses with store: false", {
  languageModel: openai(model),
  settings: { providerOptions: { openai: { store: false } } },
});
