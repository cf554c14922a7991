import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { readProviderFixtures } from "@gatehousehq/local-stack/services/provider/fixtures";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createPricedModel } from "../../../tests/gateway/priced-model.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";
import { wavHeader } from "../speech/wav.ts";

/** The provider's next answer. */
let answer: { text: string; status?: number; type?: string };
const provider = createServer(async (request, response) => {
  for await (const _ of request);
  response.writeHead(answer.status ?? 200, { "content-type": answer.type ?? "application/json" }).end(answer.text);
});

let tenant: GatewayTenant;
let gateway: InProcessGateway;
let model: string;
beforeAll(async () => {
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  tenant = await createGatewayTenant();
  model = await createPricedModel(tenant);
  const { port } = provider.address() as AddressInfo;
  gateway = await openGateway({ AI_PROVIDER_DEMO_BASE_URL: `http://127.0.0.1:${port}/v1` });
});
afterAll(async () => {
  await gateway.close();
  await tenant.close();
  provider.closeAllConnections();
  provider.close();
});

const event = (data: object) => `data: ${JSON.stringify({ id: "c", created: 1, model: "m", ...data })}\n\n`;
const stream = (...texts: string[]) => ({
  type: "text/event-stream",
  text:
    texts.map((content) => event({ choices: [{ index: 0, delta: { role: "assistant", content } }] })).join("") +
    event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }) +
    "data: [DONE]\n\n",
});
const whole = (content: string, choice: object = {}) => ({
  text: JSON.stringify({
    ...{ id: "c", object: "chat.completion", created: 1, model: "m" },
    choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop", ...choice }],
  }),
});

/**
 * Makes a call for which the provider gives the answer `given`, reads the answer to its end, and returns the settled
 * run.
 */
async function runOf(fields: object, given: typeof answer) {
  answer = given;
  const requestId = `it-${randomUUID()}`;
  const client = gateway.clientOf(tenant.key, { "x-request-id": requestId });
  const body = { model, messages: [{ role: "user", content: "Say hello." }], ...fields } as never;
  await client.chat.completions.create(body).then(
    async (value: AsyncIterable<unknown> | object) => {
      if (Symbol.asyncIterator in value) for await (const _ of value as AsyncIterable<unknown>);
    },
    () => {},
  );
  return (await tenant.accountOf(requestId)).run;
}

test("estimates the same usage for a short answer whether it is whole, streamed, or has log probabilities", async () => {
  const entry = { token: "Hello", logprob: -0.01, bytes: [72, 101, 108, 108, 111], top_logprobs: [] };
  const logprobs = { content: Array(50).fill(entry), refusal: null };
  const runs = [
    await runOf({}, whole("Hello there")),
    await runOf({ logprobs: true }, whole("Hello there", { logprobs })),
    await runOf({ stream: true }, stream("Hello there")),
    await runOf({ stream: true }, stream(..."Hello there")),
  ];
  for (const run of runs) {
    expect(run).toMatchObject({
      status: "succeeded",
      usage_source: "provider_partial",
      input_tokens: 6,
      output_tokens: 3,
    });
  }
  expect(new Set(runs.map(({ cost_usd }) => cost_usd)).size).toBe(1);
});

test("charges all delivered output if a provider ignores the output limit and states no usage", async () => {
  const words = Array.from({ length: 3_000 }, () => "words ");
  const run = await runOf({ stream: true, max_tokens: 10 }, stream(...words));
  expect(run).toMatchObject({ status: "succeeded", output_tokens: 4_500 });
  // 4,500 tokens at 8 USD per million.
  expect(Number(run.cost_usd)).toBeGreaterThan(0.036);
  expect(Number(run.cost_usd)).toBeLessThan(0.0361);
});

// The real cost is for 150 audio, 20 text and 20 output tokens, as Gemini counts them:
// https://ai.google.dev/gemini-api/docs/audio
test("charges a recording within a factor of two of its real cost, and reserves within a factor of ten", async () => {
  const cost = 0.0062;
  const header = Buffer.from(wavHeader(153_556));
  header.writeUInt32LE(16_000, 24);
  header.writeUInt32LE(32_000, 28);
  const data = Buffer.concat([header, Buffer.alloc(153_556)]).toString("base64");
  const content = [
    { type: "text", text: "What is said in this recording? Answer in one sentence." },
    { type: "input_audio", input_audio: { data, format: "wav" } },
  ];
  const run = await runOf({ messages: [{ role: "user", content }], max_tokens: 100 }, whole("x".repeat(80)));
  expect(run).toMatchObject({ status: "succeeded", output_tokens: 20 });
  expect(Number(run.cost_usd)).toBeGreaterThan(cost / 2);
  expect(Number(run.cost_usd)).toBeLessThan(cost * 2);
  expect(Number(run.reserved_usd)).toBeGreaterThan(cost / 10);
  expect(Number(run.reserved_usd)).toBeLessThan(cost * 10);
});

describe("a call that the provider refuses", () => {
  test.for(readProviderFixtures().filter(({ status }) => status >= 400))(
    "charges nothing if the provider refuses a call: $name",
    async ({ text, status }) => {
      const run = await runOf({}, { text, status });
      expect(run).toMatchObject({ status: "failed", usage_source: "unavailable", cost_usd: "0.000000000000" });
    },
  );
});
