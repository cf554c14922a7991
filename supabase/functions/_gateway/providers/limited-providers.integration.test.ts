import { randomUUID } from "node:crypto";
import type OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createPricedModel } from "../../../tests/gateway/priced-model.ts";
import { type ScriptedProvider, startScriptedProvider } from "../../../tests/gateway/scripted-provider.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

let tenant: GatewayTenant;
let upstream: ScriptedProvider;
let gateways: InProcessGateway[];
let settings: Record<string, string>;
/** The models' providers, of which only the first is limited. */
let limited: string;
let free: string;
let alone: string;
let both: string;

beforeAll(async () => {
  [tenant, upstream] = await Promise.all([createGatewayTenant(), startScriptedProvider()]);
  const suffix = randomUUID().slice(0, 8);
  limited = `limited_${suffix}`;
  free = `free_${suffix}`;
  settings = Object.fromEntries(
    [limited, free].map((id) => [`AI_PROVIDER_${id.toUpperCase()}_BASE_URL`, upstream.url]),
  );
  gateways = await Promise.all([openGateway(settings), openGateway(settings)]);
  alone = await createPricedModel(tenant, { providers: [limited] });
  both = await createPricedModel(tenant, { providers: [limited, free] });
});
beforeEach(() => {
  upstream.calls = 0;
});
afterAll(async () => {
  await tenant.db.query("delete from ai.provider_limits where provider_id = $1", [limited]);
  for (const gateway of gateways) await gateway.close();
  upstream.close();
  await tenant.close();
});

async function limit({ requests = null, tokens = null }: { requests?: number | null; tokens?: number | null }) {
  await tenant.db.query("delete from ai.provider_limits where provider_id = $1", [limited]);
  if (requests === null && tokens === null) return;
  await tenant.db.query(
    "insert into ai.provider_limits (provider_id, requests_per_minute, tokens_per_minute) values ($1, $2, $3)",
    [limited, requests, tokens],
  );
}

/** Sends a chat by one of the gateways. Returns its text or its error, and its run. */
async function ask(model: string, { stream = false, by = 0, body = {} } = {}) {
  const requestId = `it-${randomUUID()}`;
  const gateway = gateways[by] as InProcessGateway;
  const client = gateway.clientOf(tenant.key, { "x-request-id": requestId });
  const outcome = await client.chat.completions
    .create({ model, stream, max_completion_tokens: 50, messages: [{ role: "user", content: "hello" }], ...body })
    .then(async (answer) => {
      if (!(Symbol.asyncIterator in answer)) return answer.choices[0]?.message.content ?? "";
      let text = "";
      for await (const chunk of answer) text += chunk.choices[0]?.delta.content ?? "";
      return text;
    })
    .catch((error: InstanceType<typeof OpenAI.APIError>) => error);
  await gateway.settled();
  return { outcome, run: (await tenant.accountOf(requestId)).run };
}

describe.for([{ stream: false }, { stream: true }])("a limited provider: %j", (how) => {
  test("a call without room uses the next route, and its run names the skipped one", async () => {
    await limit({ requests: 1 });
    expect(await ask(both, how)).toMatchObject({ outcome: "hi", run: { attempts: [{ route: 1, status: 200 }] } });
    const { outcome, run } = await ask(both, how);
    expect(outcome).toBe("hi");
    expect(run.attempts).toMatchObject([
      { route: 1, provider: limited, failure: "skipped" },
      { route: 2, provider: free, status: 200 },
    ]);
  });

  test("a call without room at its only provider is refused with 429, costs nothing, and states when to retry", async () => {
    await limit({ requests: 1 });
    expect((await ask(alone, how)).outcome).toBe("hi");
    const { outcome, run } = await ask(alone, { ...how, by: 1 });
    const error = outcome as InstanceType<typeof OpenAI.APIError>;
    expect(error).toMatchObject({ status: 429, code: "rate_limit_exceeded" });
    const seconds = Number(error.headers?.get("retry-after"));
    expect(seconds).toBeGreaterThan(50);
    expect(seconds).toBeLessThanOrEqual(61);
    expect(error.error).toMatchObject({ limit: { kind: "provider", reset_seconds: seconds } });
    expect(run).toMatchObject({
      status: "failed",
      http_status: 429,
      cost_usd: "0.000000000000",
      usage_source: "unavailable",
    });
    expect(upstream.calls).toBe(1);
  });
});

test("calls wait for room at their only provider, and each process gets its part", async () => {
  // 17 at once, then one each 0.4 seconds.
  await limit({ requests: 170 });
  const startedAt = performance.now();
  const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => ask(alone, { by: n % 2 })));
  expect(answers.map(({ outcome }) => outcome)).toEqual(Array.from({ length: 20 }, () => "hi"));
  expect(performance.now() - startedAt).toBeGreaterThan(1_000);
});

test("a limit of tokens counts the maximum input and the output limit of a call", async () => {
  // A tenth of the limit at once: 1,000 tokens.
  await limit({ tokens: 10_000 });
  expect((await ask(alone, { body: { max_completion_tokens: 900 } })).outcome).toBe("hi");
  const next = await ask(alone, { body: { max_completion_tokens: 2_000 } });
  expect(next.outcome).toMatchObject({ status: 429, error: { limit: { kind: "provider" } } });
  const never = await ask(alone, { body: { max_completion_tokens: 10_000 } });
  expect(never.outcome).toMatchObject({ status: 429, error: { limit: { kind: "provider" } } });
  expect((never.outcome as InstanceType<typeof OpenAI.APIError>).headers?.get("retry-after")).toBeNull();
});

test("only calls to a limited provider take a statement of their own, which calls in progress share", async () => {
  const { line } = gateways[0] as InProcessGateway;
  const statementsOf = async (calls: () => Promise<unknown>) => {
    const before = line.calls().length;
    await calls();
    return line.calls().slice(before).toSorted();
  };
  await limit({});
  await ask(alone);
  expect(await statementsOf(() => ask(alone))).toEqual(["begin_runs", "settle_runs"]);
  await limit({ requests: 1_000_000 });
  await ask(alone);
  expect(await statementsOf(() => ask(alone))).toEqual(["begin_runs", "settle_runs", "take_provider_calls"]);
  const many = await statementsOf(() => Promise.all(Array.from({ length: 32 }, () => ask(alone))));
  expect(many.filter((name) => name === "take_provider_calls").length).toBeLessThan(20);
});

test("each provider call of a tool loop is taken", async () => {
  await limit({ requests: 1_000_000 });
  let step = 0;
  upstream.script = (response) => {
    step += 1;
    const toolCalls = [
      { id: "c1", type: "function", function: { name: "calculator", arguments: '{"expression":"1+1"}' } },
    ];
    const message =
      step === 1 ? { role: "assistant", content: null, tool_calls: toolCalls } : { role: "assistant", content: "hi" };
    const finish_reason = step === 1 ? "tool_calls" : "stop";
    response.writeHead(200, { "content-type": "application/json" }).end(
      JSON.stringify({
        id: "c",
        created: 1,
        model: "m",
        object: "chat.completion",
        choices: [{ index: 0, finish_reason, message }],
        usage: { prompt_tokens: 20, completion_tokens: 30, total_tokens: 50 },
      }),
    );
  };
  const { line } = gateways[0] as InProcessGateway;
  const before = line.calls().length;
  const { outcome } = await ask(alone, { body: { tools: ["calculator"], max_steps: 4 } });
  expect(outcome).toBe("hi");
  expect(line.calls().slice(before)).toEqual([
    "begin_runs",
    "take_provider_calls",
    "extend_run",
    "take_provider_calls",
    "settle_runs",
  ]);
});
