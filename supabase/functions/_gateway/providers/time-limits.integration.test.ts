import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createPricedModel } from "../../../tests/gateway/priced-model.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";
import { formatDecimal, parseDecimal } from "../../_shared/decimal.ts";

/** How long the provider waits before it answers. */
let answerInMs = 0;
const usage = { prompt_tokens: 20, completion_tokens: 30_000, total_tokens: 30_020 };
const finished = { index: 0, finish_reason: "stop" };
const whole = { id: "c", object: "chat.completion", created: 1, model: "m", usage };
const chunk = { id: "c", object: "chat.completion.chunk", created: 1, model: "m", usage };
const provider = createServer(async (request, response) => {
  let text = "";
  for await (const piece of request) text += piece;
  const { stream } = JSON.parse(text);
  const body = stream
    ? `data: ${JSON.stringify({ ...chunk, choices: [{ ...finished, delta: { content: "hi" } }] })}\n\n`
    : JSON.stringify({ ...whole, choices: [{ ...finished, message: { role: "assistant", content: "hi" } }] });
  const type = stream ? "text/event-stream" : "application/json";
  setTimeout(() => response.writeHead(200, { "content-type": type }).end(body), answerInMs).unref();
});

let tenant: GatewayTenant;
let gateway: InProcessGateway;
let model: string;
beforeAll(async () => {
  await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve));
  tenant = await createGatewayTenant();
  model = await createPricedModel(tenant);
  const { port } = provider.address() as AddressInfo;
  gateway = await openGateway({
    AI_PROVIDER_DEMO_BASE_URL: `http://127.0.0.1:${port}/v1`,
    AI_PROVIDER_DEMO_FIRST_BYTE_SECONDS: "1",
    AI_TOTAL_LIMIT_SECONDS: "3",
  });
});
afterAll(async () => {
  await gateway.close();
  await tenant.close();
  provider.closeAllConnections();
  provider.close();
});

/** Requests an answer that arrives after `ms`. @returns its status and its settled cost */
async function ask(ms: number, { stream }: { stream: boolean }) {
  answerInMs = ms;
  const requestId = `it-${randomUUID()}`;
  const client = gateway.clientOf(tenant.key, { "x-request-id": requestId });
  const messages = [{ role: "user" as const, content: "Write a book." }];
  const body = { model, messages, max_completion_tokens: 32_768, stream };
  const call = client.chat.completions.create(body).then(async (answer) => {
    if (Symbol.asyncIterator in answer) for await (const _ of answer);
    return 200;
  });
  const status: number = await call.catch((error) => error.status);
  const { run } = await tenant.accountOf(requestId);
  return [status, run.error_code, run.usage_source, formatDecimal(parseDecimal(run.cost_usd))];
}

const answered = [200, null, "provider", "0.24004"];
/** The estimated cost of the prompt, since the provider may charge for what it began. */
const timedOut = [504, "provider_timeout", "estimated_partial", "0.000014"];

describe("a non-streamed answer", () => {
  test("a non-streamed answer may take longer than the first-byte limit of streams", async () => {
    expect(await ask(1_500, { stream: false })).toEqual(answered);
  });

  test("a non-streamed answer that exceeds the total time limit fails with 504 provider_timeout and costs an estimate", async () => {
    expect(await ask(60_000, { stream: false })).toEqual(timedOut);
  });
});

describe("the first-byte limit of a stream", () => {
  test("serves a stream that begins within the first-byte limit", async () => {
    expect(await ask(100, { stream: true })).toEqual(answered);
  });

  test("a stream that begins after the first-byte limit fails with 504 provider_timeout and costs an estimate", async () => {
    expect(await ask(60_000, { stream: true })).toEqual(timedOut);
  });
});
