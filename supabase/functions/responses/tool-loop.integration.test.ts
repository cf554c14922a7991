import { randomUUID } from "node:crypto";
import type OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Account, createGatewayTenant, type GatewayTenant } from "../../tests/gateway/tenant.ts";
import { providerCalls } from "../../tests/gateway/truth.ts";

type Step = { type: string; name: string; status: string };
type Platform = { steps: (Step & { step: number; latency_ms: number })[]; billed_credits: number };
type Body = OpenAI.Responses.ResponseCreateParamsNonStreaming;

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

const newId = () => `it-${randomUUID()}`;
const named = (requestId: string) => ({ headers: { "x-request-id": requestId } });
/** Returns a request with gateway fields that the client's types don't include. */
const body = (input: unknown, fields: object = {}) =>
  ({ model: "demo-chat", input, tools: ["calculator", "current_time"], ...fields }) as unknown as Body;
const multiply = 'call calculator with {"expression":"6*7"}';

const model = (status = "succeeded", name = "demo-chat") => ({ type: "model", name, status });
const tool = (name: string, status = "succeeded") => ({ type: "tool", name, status });
const bare = (steps: readonly Step[] = []) => steps.map(({ type, name, status }) => ({ type, name, status }));

async function whole(requestId: string, request: Body) {
  const answer = await tenant.client.responses.create(request, named(requestId));
  return { answer, platform: (answer as unknown as { platform: Platform }).platform };
}

async function stream(requestId: string, request: Body) {
  const events: OpenAI.Responses.ResponseStreamEvent[] = [];
  for await (const event of await tenant.client.responses.create({ ...request, stream: true }, named(requestId))) {
    events.push(event);
  }
  const last = events.at(-1) as unknown as { response: OpenAI.Responses.Response; platform: Platform };
  return { events, answer: last.response, platform: last.platform };
}

/** Reads an answer to its end if it is a stream. */
async function drained(answer: object): Promise<void> {
  if (Symbol.asyncIterator in answer) for await (const _ of answer as AsyncIterable<unknown>);
}

/** Expects the run to count the total usage of all provider calls. */
function expectSum({ run, charged, truth }: Account, modelCalls: number): void {
  const sum = (key: "input" | "output") => truth.reduce((total, { usage }) => total + usage[key], 0);
  expect(truth).toHaveLength(modelCalls);
  expect(run).toMatchObject({ usage_source: "provider", input_tokens: sum("input"), output_tokens: sum("output") });
  expect(charged).toBe(run.billed_credits);
}

describe.for([
  ["whole", whole],
  ["streamed", stream],
] as const)("a Responses API call with server tools, %s", ([, ask]) => {
  test("a Responses API call runs server tools and answers with their results", async () => {
    const requestId = newId();
    const { answer, platform } = await ask(requestId, body(multiply));
    expect(answer.status).toBe("completed");
    expect(answer.output.map(({ type }) => type)).toEqual(["message"]);
    expect(JSON.stringify(answer.output)).toContain(String.raw`\"result\":42`);
    const steps = [model(), tool("calculator"), model()];
    expect(platform.steps).toEqual(
      steps.map((step, index) => ({ ...step, step: index + 1, latency_ms: expect.any(Number) })),
    );
    const account = await tenant.accountOf(requestId);
    expectSum(account, 2);
    expect(bare(account.steps)).toEqual(steps);
    expect(answer.usage).toMatchObject({
      input_tokens: account.run.input_tokens,
      output_tokens: account.run.output_tokens,
      total_tokens: account.run.input_tokens + account.run.output_tokens,
    });
    expect(platform.billed_credits).toBe(Number(account.run.billed_credits));
  });

  test("a Responses API call accepts server tools in the request's `platform` field, and earlier items in the input", async () => {
    const input = [
      { role: "user", content: "hello" },
      { role: "assistant", content: "yes?" },
      { role: "user", content: "call current_time" },
    ];
    const native = { tools: undefined, platform: { max_steps: 2, tools: ["current_time"] } };
    const { answer } = await ask(newId(), body(input, native));
    expect(JSON.stringify(answer.output)).toContain(String.raw`\"utc\":\"${new Date().toISOString().slice(0, 11)}`);
  });

  test("a Responses API call ends at max_steps, even if the model wants to call more tools", async () => {
    const many = body(`[[calls=9]] ${multiply}`, { max_steps: 1 });
    expect(bare((await ask(newId(), many)).platform.steps)).toEqual([model()]);
    const requestId = newId();
    const eight = await ask(requestId, { ...many, max_steps: 8 } as Body);
    expect(eight.platform.steps.filter(({ type }) => type === "model")).toHaveLength(8);
    expect(eight.platform.steps.filter(({ type }) => type === "tool")).toHaveLength(7);
    expectSum(await tenant.accountOf(requestId), 8);
    for (const max_steps of [1, 2]) {
      const stubborn = await ask(newId(), body("continue", { model: "demo-stubborn", max_steps }));
      expect(stubborn.answer.output).toEqual([]);
    }
  });

  test.for([0, 9])("refuses a Responses API call with max_steps %i", async (max_steps) => {
    await expect(ask(newId(), body("hello", { max_steps }))).rejects.toMatchObject({
      status: 400,
      code: "invalid_request",
      param: "max_steps",
    });
  });

  test("reports a failing tool to the model without failing the run", async () => {
    const { answer, platform } = await ask(newId(), body('call calculator with {"expression":"1/0"}'));
    expect(bare(platform.steps)).toEqual([model(), tool("calculator", "failed"), model()]);
    expect(answer.status).toBe("completed");
  });

  test("a Responses API call fails at a step that the balance cannot cover, and the earlier steps are charged", async () => {
    const poor = await createGatewayTenant({ credits: "1.5" });
    const requestId = newId();
    const streamed = ask === stream;
    const call = poor.client.responses.create(
      body(multiply, { max_output_tokens: 100, stream: streamed }),
      named(requestId),
    );
    await expect(call.then(drained)).rejects.toMatchObject({ code: "insufficient_credits" });
    const { run, truth, charged, steps } = await poor.accountOf(requestId);
    expect(run).toMatchObject({ status: "failed", usage_source: "provider_partial" });
    expect([run.input_tokens, run.output_tokens]).toEqual([truth[0]?.usage.input, truth[0]?.usage.output]);
    expect(Number(charged)).toBeGreaterThan(0);
    expect(bare(steps)).toEqual([model(), tool("calculator")]);
    expect((await poor.books()).reserved).toBe("0.00000000");
    await poor.close();
  });

  test("if a later step of a Responses API call fails, the completed steps stay charged", async () => {
    const requestId = newId();
    const asked = body("call calculator", { model: "demo-error-later" });
    await expect(ask(requestId, asked)).rejects.toMatchObject({ code: "provider_error" });
    const { run, truth, steps } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "failed", usage_source: "provider_partial", error_code: "provider_error" });
    expect(truth.map(({ status }) => status)).toEqual([200, 500]);
    const name = "demo-error-later";
    expect(bare(steps)).toEqual([model("succeeded", name), tool("calculator"), model("failed", name)]);
  });

  test("if a client disconnects during a later step of a Responses API call, an estimate is charged in addition to the known usage", {
    tags: "needs-stack-server",
  }, async () => {
    const requestId = newId();
    const leaving = new AbortController();
    const asked = body(`[[first=1000]] ${multiply}`, { stream: ask === stream });
    const call = tenant.client.responses.create(asked, { ...named(requestId), signal: leaving.signal });
    const ended = call.then(drained).catch(() => {});
    await expect.poll(() => providerCalls(tenant, requestId), { timeout: 10_000, interval: 50 }).toBe(2);
    leaving.abort();
    await ended;
    const { run, truth, steps } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "cancelled", http_status: 499, usage_source: "estimated_partial" });
    expect(truth).toMatchObject([{ aborted: false }, { aborted: true }]);
    expect(bare(steps)).toEqual([model(), tool("calculator"), model("aborted")]);
  });
});

describe("a streamed response with server tools", () => {
  test("a streamed response with server tools has one start event, consecutively numbered items and one end event", async () => {
    const { events, answer } = await stream(newId(), body(`[[calls=2]] ${multiply}`));
    expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, index) => index));
    const types = events.map(({ type }) => type);
    for (const once of ["response.created", "response.in_progress", "response.completed"]) {
      expect(types.filter((type) => type === once)).toHaveLength(1);
    }
    const indexes = events.flatMap((event) => ("output_index" in event ? [event.output_index] : []));
    expect(new Set(indexes)).toEqual(new Set([0]));
    const [first] = events as { response: { id: string } }[];
    expect(answer.id).toBe(first?.response.id);
    expect(JSON.stringify(events)).not.toContain("function_call_arguments");
  });

  test("a streamed response never shows a call of a server tool, not even on the last step", async () => {
    for (const max_steps of [1, 2]) {
      const { events } = await stream(newId(), body("continue", { model: "demo-stubborn", max_steps }));
      expect(JSON.stringify(events)).not.toContain("function_call");
      expect(events.at(-1)?.type).toBe("response.completed");
    }
  });

  test("a streamed response with server tools works with the OpenAI client's responses.stream helper", async () => {
    const helper = tenant.client.responses.stream(body(multiply) as object as { model: string; input: string });
    expect((await helper.finalResponse()).output_text).toContain('"result":42');
  });
});

test("max_steps has no effect without server tools", async () => {
  const { answer, platform } = await whole(newId(), body("hello", { tools: undefined, max_steps: 8 }));
  expect(answer.output_text).toContain("hello");
  expect(bare(platform.steps)).toEqual([model()]);
});
