import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createPricedModel } from "../../../tests/gateway/priced-model.ts";
import {
  answerError,
  answerWell,
  type Script,
  type ScriptedProvider,
  startScriptedProvider,
} from "../../../tests/gateway/scripted-provider.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

let tenant: GatewayTenant;
let first: ScriptedProvider;
let second: ScriptedProvider;
let model: string;
let alone: string;
let gateway: InProcessGateway;

beforeAll(async () => {
  [tenant, first, second] = await Promise.all([
    createGatewayTenant(),
    startScriptedProvider(),
    startScriptedProvider(),
  ]);
  model = await createPricedModel(tenant, { providers: ["first", "second"] });
  alone = await createPricedModel(tenant, { providers: ["first"] });
});
beforeEach(async () => {
  second.script = answerWell;
  gateway = await openGateway({
    AI_PROVIDER_FIRST_BASE_URL: first.url,
    AI_PROVIDER_SECOND_BASE_URL: second.url,
  });
  return gateway.close;
});
afterAll(async () => {
  first.close();
  second.close();
  await tenant.close();
});

const answer =
  (body: object): Script =>
  (response) => {
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
  };
// github.com/BerriAI/litellm/issues/40252
const emptyChat = {
  choices: [],
  usage: { prompt_tokens: 4_241, completion_tokens: 0, total_tokens: 4_241 },
};
const emptyResponse = {
  status: "completed",
  output: null,
  usage: { input_tokens: 4_241, output_tokens: 0, total_tokens: 4_241 },
};

/** Sends a call that is not streamed. Returns its error, if any, and its run. */
async function ask(path: "chat" | "responses", name: string) {
  const requestId = `it-${randomUUID()}`;
  const client = gateway.clientOf(tenant.key, { "x-request-id": requestId });
  const error = await (path === "chat"
    ? client.chat.completions.create({ model: name, messages: [{ role: "user", content: "hello" }] })
    : client.responses.create({ model: name, input: "hello", store: false })
  ).then(
    () => undefined,
    (cause: unknown) => cause,
  );
  await gateway.settled();
  const { run, charged } = await tenant.accountOf(requestId);
  return { error, run, charged };
}

// The model's input costs 2 USD per million tokens, and its output 8.
describe("a whole answer that cannot be read", () => {
  test.for([
    ["chat", emptyChat],
    ["responses", emptyResponse],
  ] as const)("is charged if no other route is left: %s", async ([path, body]) => {
    first.script = answer(body);
    const { error, run, charged } = await ask(path, alone);
    expect(error).toMatchObject({ status: 502 });
    expect(run).toMatchObject({ status: "failed", usage_source: "provider", input_tokens: 4_241 });
    expect(run.cost_usd).toBe("0.008482000000");
    expect(charged).toBe(run.billed_credits);
  });

  test("is charged in addition to the answer of the next route, and both calls are lines of the run", async () => {
    first.script = answer(emptyChat);
    const { error, run, charged } = await ask("chat", model);
    expect(error).toBeUndefined();
    // The second answer has 20 input and 30 output tokens.
    expect(run).toMatchObject({
      status: "succeeded",
      usage_source: "provider",
      input_tokens: 4_261,
      output_tokens: 30,
    });
    expect(run.cost_usd).toBe("0.008762000000");
    expect(charged).toBe(run.billed_credits);
    expect(run.attempts).toMatchObject([
      { route: 1, failure: "invalid_answer", charged: { input_tokens: 4_241, output_tokens: 0 } },
      { route: 2, charged: { input_tokens: 20, output_tokens: 30 } },
    ]);
  });

  test("is charged if the next route fails", async () => {
    first.script = answer(emptyChat);
    second.script = answerError(500);
    const { error, run } = await ask("chat", model);
    expect(error).toMatchObject({ status: 502 });
    expect(run).toMatchObject({ status: "failed", cost_usd: "0.008482000000" });
    expect(run.attempts).toMatchObject([
      { route: 1, charged: { input_tokens: 4_241 } },
      { route: 2, failure: "server_error" },
    ]);
  });

  test("is charged twice if the next route answers like it", async () => {
    first.script = answer(emptyChat);
    second.script = answer(emptyChat);
    expect((await ask("chat", model)).run).toMatchObject({ input_tokens: 8_482, cost_usd: "0.016964000000" });
  });
});
