import { randomUUID } from "node:crypto";
import type OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Account, createGatewayTenant, type GatewayTenant } from "../../tests/gateway/tenant.ts";
import { providerCalls } from "../../tests/gateway/truth.ts";

type Step = { type: string; name: string; status: string };
type Platform = {
  steps: (Step & { step: number; latency_ms: number })[];
  billed_credits: number;
  usage_source: string;
};
type Chunk = OpenAI.ChatCompletionChunk & { platform?: Platform };

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

const newId = () => `it-${randomUUID()}`;
const named = (requestId: string) => ({ headers: { "x-request-id": requestId } });
/** Returns a request with gateway fields that the client's types don't include. */
const body = (prompt: string, fields: object = {}) =>
  ({
    model: "demo-chat",
    messages: [{ role: "user", content: prompt }],
    tools: ["calculator", "current_time"],
    ...fields,
  }) as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming;

const model = (status = "succeeded", name = "demo-chat") => ({ type: "model", name, status });
const tool = (name: string, status = "succeeded") => ({ type: "tool", name, status });
const bare = (steps: readonly Step[] = []) => steps.map(({ type, name, status }) => ({ type, name, status }));

async function whole(requestId: string, request: OpenAI.ChatCompletionCreateParamsNonStreaming) {
  const answer = await tenant.client.chat.completions.create(request, named(requestId));
  return { answer, platform: (answer as unknown as { platform: Platform }).platform };
}

async function stream(requestId: string, request: OpenAI.ChatCompletionCreateParamsNonStreaming) {
  const events = await tenant.client.chat.completions.create({ ...request, stream: true }, named(requestId));
  const chunks: Chunk[] = [];
  let failure: unknown;
  try {
    for await (const chunk of events) chunks.push(chunk);
  } catch (error) {
    failure = error;
  }
  const text = chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
  return { chunks, text, failure, platform: chunks.at(-1)?.platform };
}

/** Reads an answer to its end if it is a stream. */
async function drained(answer: object): Promise<void> {
  if (Symbol.asyncIterator in answer) for await (const _ of answer as AsyncIterable<unknown>);
}

/** Expects the run to count the total usage of all provider calls. */
function expectSum({ run, charged, truth, steps }: Account, modelCalls: number): void {
  const sum = (key: "input" | "output") => truth.reduce((total, { usage }) => total + usage[key], 0);
  expect(truth).toHaveLength(modelCalls);
  expect(run).toMatchObject({ usage_source: "provider", input_tokens: sum("input"), output_tokens: sum("output") });
  expect(charged).toBe(run.billed_credits);
  // The usage of each call is stored, because each call's own input determines its price tier.
  const uses = run.attempts?.map((attempt) => attempt.charged);
  expect(uses).toMatchObject(truth.map(({ usage }) => ({ input_tokens: usage.input, output_tokens: usage.output })));
  expect(steps.map(({ step }) => step)).toEqual(steps.map((_, index) => index + 1));
}

describe("a chat with server tools", () => {
  test("a chat calls server tools and answers with their results", async () => {
    const requestId = newId();
    const { answer, platform } = await whole(requestId, body('call calculator with {"expression":"6*7"}'));
    expect(answer.choices[0]).toMatchObject({ finish_reason: "stop", message: { role: "assistant" } });
    expect(answer.choices[0]?.message.content).toContain('"result":42');
    expect(answer.choices[0]?.message.tool_calls).toBeUndefined();
    const steps = [model(), tool("calculator"), model()];
    expect(bare(platform.steps)).toEqual(steps);
    for (const [index, step] of platform.steps.entries()) {
      expect(step).toEqual({ ...steps[index], step: index + 1, latency_ms: expect.any(Number) });
    }
    const account = await tenant.accountOf(requestId);
    expectSum(account, 2);
    expect(bare(account.steps)).toEqual(steps);
    expect(answer.usage).toMatchObject({
      prompt_tokens: account.run.input_tokens,
      completion_tokens: account.run.output_tokens,
    });
    expect(platform.billed_credits).toBe(Number(account.run.billed_credits));
  });

  test("a streamed tool loop is one answer with one id, and the usage of all its steps is metered", async () => {
    const requestId = newId();
    const { chunks, text, platform, failure } = await stream(
      requestId,
      body('call calculator with {"expression":"6*7"}', { stream_options: { include_usage: true } }),
    );
    expect(failure).toBeUndefined();
    expect(text).toContain('"result":42');
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
    expect(chunks.filter(({ choices }) => choices[0]?.delta.role)).toHaveLength(1);
    expect(chunks.flatMap(({ choices }) => choices[0]?.finish_reason ?? [])).toEqual(["stop"]);
    expect(chunks.some(({ choices }) => choices[0]?.delta.tool_calls)).toBe(false);
    expect(bare(platform?.steps)).toEqual([model(), tool("calculator"), model()]);
    const account = await tenant.accountOf(requestId);
    expectSum(account, 2);
    const usage = chunks.at(-1)?.usage;
    expect([usage?.prompt_tokens, usage?.completion_tokens]).toEqual([
      account.run.input_tokens,
      account.run.output_tokens,
    ]);
  });

  test("a chat accepts server tools in the request's `platform` field, and the client's stream helper can read the answer", async () => {
    const { tools, ...request } = body("call current_time");
    const native = { ...request, platform: { max_steps: 2, tools: ["current_time"] } };
    const { answer } = await whole(newId(), native);
    expect(answer.choices[0]?.message.content).toContain(`"utc":"${new Date().toISOString().slice(0, 11)}`);
    const helper = tenant.client.chat.completions.stream({ ...native, stream: true });
    expect((await helper.finalChatCompletion()).choices[0]?.message.content).toContain('"timezone":"Europe/Rome"');
  });

  test.for([false, true])(
    "a tool loop ends at max_steps, even if the model wants to call more tools: streamed %s",
    async (streamed) => {
      const limited = (model: string) => body("continue", { model, tools: ["calculator"], max_steps: 3 });
      const ask = async (model: string) => {
        const requestId = newId();
        const told = await (streamed ? stream : whole)(requestId, limited(model));
        expect(JSON.stringify(told)).not.toContain("tool_calls");
        expect(JSON.stringify(told)).toContain('"finish_reason":"stop"');
        const { platform } = told;
        return { steps: bare(platform?.steps), account: await tenant.accountOf(requestId) };
      };
      const stubborn = await ask("demo-stubborn");
      const one = [model("succeeded", "demo-stubborn"), tool("calculator")];
      expect(stubborn.steps).toEqual([...one, ...one, one[0]]);
      expectSum(stubborn.account, 3);
    },
  );

  test("disables tools on the last step, so only the steps before it call tools", async () => {
    const request = body('[[calls=9]] call calculator with {"expression":"1+1"}', { max_steps: 3 });
    const { answer, platform } = await whole(newId(), request);
    expect(bare(platform.steps)).toEqual([model(), tool("calculator"), model(), tool("calculator"), model()]);
    expect(answer.choices[0]).toMatchObject({ finish_reason: "stop" });
    const single = await whole(newId(), { ...request, max_steps: 1 } as typeof request);
    expect(bare(single.platform.steps)).toEqual([model()]);
    const stubborn = await whole(newId(), body("continue", { model: "demo-stubborn", max_steps: 1 }));
    expect(stubborn.answer.choices[0]).toMatchObject({ finish_reason: "stop", message: { role: "assistant" } });
    expect(stubborn.answer.choices[0]?.message.tool_calls).toBeUndefined();
  });

  test("reports a failing tool to the model without failing the run", async () => {
    const { answer, platform } = await whole(newId(), body('call calculator with {"expression":"1/0"}'));
    expect(bare(platform.steps)).toEqual([model(), tool("calculator", "failed"), model()]);
    expect(answer.choices[0]?.message.content).toContain("not a finite number");
  });

  test("max_steps alone does not enable server tools", async () => {
    const { answer, platform } = await whole(newId(), body("hello", { tools: undefined, max_steps: 8 }));
    expect(answer.choices[0]?.message.content).toContain("hello");
    expect(bare(platform.steps)).toEqual([model()]);
  });
});

describe("a later step of a tool loop", () => {
  /** Creates a tenant whose balance covers only the first step. */
  async function poorTenant() {
    const poor = await createGatewayTenant({ credits: "1.5" });
    const ask = body('call calculator with {"expression":"6*7"}', { max_completion_tokens: 100 });
    return { poor, ask };
  }

  test("a tool loop fails at the first step that exceeds the balance, and the earlier steps are charged", async () => {
    const { poor, ask } = await poorTenant();
    const requestId = newId();
    await expect(poor.client.chat.completions.create(ask, named(requestId))).rejects.toMatchObject({
      status: 402,
      code: "insufficient_credits",
    });
    const { run, charged, truth, steps } = await poor.accountOf(requestId);
    expect(truth).toHaveLength(1);
    expect(run).toMatchObject({ status: "failed", usage_source: "provider_partial", http_status: 402 });
    expect([run.input_tokens, run.output_tokens]).toEqual([truth[0]?.usage.input, truth[0]?.usage.output]);
    expect(Number(charged)).toBeGreaterThan(0);
    expect(bare(steps)).toEqual([model(), tool("calculator")]);
    expect((await poor.books()).reserved).toBe("0.00000000");
    await poor.close();
  });

  test("a streamed tool loop ends with one error if the balance does not cover the next step", async () => {
    const { poor, ask } = await poorTenant();
    const requestId = newId();
    const events = await poor.client.chat.completions.create({ ...ask, stream: true }, named(requestId));
    await expect(drained(events)).rejects.toMatchObject({ code: "insufficient_credits" });
    const { run } = await poor.accountOf(requestId);
    expect(run).toMatchObject({
      status: "failed",
      usage_source: "provider_partial",
      error_code: "insufficient_credits",
    });
    await poor.close();
  });

  test.for([false, true])("if a later step fails, the completed steps stay charged: streamed %s", async (streamed) => {
    const requestId = newId();
    const ask = body("call calculator", { model: "demo-error-later", stream: streamed });
    const call = tenant.client.chat.completions.create(ask, named(requestId));
    await expect(call.then(drained)).rejects.toMatchObject({ code: "provider_error" });
    const { run, truth, steps } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "failed", usage_source: "provider_partial", error_code: "provider_error" });
    expect(truth.map(({ status }) => status)).toEqual([200, 500]);
    expect([run.input_tokens, run.output_tokens]).toEqual([truth[0]?.usage.input, truth[0]?.usage.output]);
    const name = "demo-error-later";
    expect(bare(steps)).toEqual([model("succeeded", name), tool("calculator"), model("failed", name)]);
  });

  test("an error after charged steps tells clients not to retry, and a repeated call with the same idempotency key is refused", async () => {
    const requestId = newId();
    const ask = () =>
      fetch(`${tenant.client.baseURL}/chat/completions`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${tenant.key}`,
          "content-type": "application/json",
          "idempotency-key": requestId,
          "x-request-id": requestId,
        },
        body: JSON.stringify(body("call calculator", { model: "demo-error-later" })),
      });
    const failed = await ask();
    expect([failed.status, failed.headers.get("x-should-retry")]).toEqual([502, "false"]);
    await tenant.accountOf(requestId);
    const again = await ask();
    expect([again.status, again.headers.get("x-should-retry")]).toEqual([409, "false"]);
    expect(await providerCalls(tenant, requestId)).toBe(2);
  });

  test.for([false, true])(
    "charges an estimate in addition to known usage if the client disconnects during a later step: streamed %s",
    { tags: "needs-stack-server" },
    async (streamed) => {
      const requestId = newId();
      const leaving = new AbortController();
      const ask = body('[[first=1000]] call calculator with {"expression":"6*7"}', { stream: streamed });
      const call = tenant.client.chat.completions.create(ask, { ...named(requestId), signal: leaving.signal });
      const ended = call.then(drained).catch(() => {});
      await expect.poll(() => providerCalls(tenant, requestId), { timeout: 10_000, interval: 50 }).toBe(2);
      leaving.abort();
      await ended;
      const { run, truth, steps } = await tenant.accountOf(requestId);
      expect(run).toMatchObject({ status: "cancelled", http_status: 499, usage_source: "estimated_partial" });
      expect(truth).toMatchObject([{ aborted: false }, { aborted: true }]);
      expect(run.input_tokens).toBeGreaterThan(truth[0]?.usage.input ?? 0);
      expect(bare(steps)).toEqual([model(), tool("calculator"), model("aborted")]);
    },
  );
});
