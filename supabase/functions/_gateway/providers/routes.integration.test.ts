import { randomUUID } from "node:crypto";
import type OpenAI from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createPricedModel } from "../../../tests/gateway/priced-model.ts";
import {
  answerAs,
  answerError,
  answerWell,
  hang,
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
  // A separate gateway, so that no route is cooling down from an earlier test.
  gateway = await openGateway({
    AI_PROVIDER_FIRST_BASE_URL: first.url,
    AI_PROVIDER_FIRST_FIRST_BYTE_SECONDS: "1",
    AI_PROVIDER_FIRST_TOTAL_SECONDS: "1",
    AI_PROVIDER_FIRST_REGION: "eu",
    AI_PROVIDER_SECOND_BASE_URL: second.url,
    AI_PROVIDER_SECOND_REGION: "us",
  });
  return gateway.close;
});
afterAll(async () => {
  first.close();
  second.close();
  await tenant.close();
});

/** Sends a chat. Returns its text or its error, and its run. */
async function ask(name: string, { stream = false } = {}) {
  const requestId = `it-${randomUUID()}`;
  const client = gateway.clientOf(tenant.key, { "x-request-id": requestId });
  const call = client.chat.completions
    .create({ model: name, stream, messages: [{ role: "user", content: "hello" }] })
    .then(async (answer) => {
      let text = "";
      if (Symbol.asyncIterator in answer) {
        for await (const chunk of answer) text += chunk.choices[0]?.delta.content ?? "";
      } else text = answer.choices[0]?.message.content ?? "";
      return text;
    });
  const outcome = await call.catch((error: InstanceType<typeof OpenAI.APIError>) => error);
  await gateway.settled();
  const { run } = await tenant.accountOf(requestId);
  return { outcome, run };
}

const whole = { stream: false };
const streamed = { stream: true };

describe.for([whole, streamed])("fallback to the next route: %j", (how) => {
  test.for<[number, Script, string]>([
    [401, answerError(401, { code: "invalid_api_key" }), "unauthorized"],
    [402, answerError(402, { message: "Insufficient Balance" }), "payment_required"],
    [403, answerError(403), "forbidden"],
    [404, answerError(404, { code: "model_not_found" }), "not_found"],
    [429, answerError(429, {}, { "retry-after": "1" }), "rate_limited"],
    [500, answerError(500), "server_error"],
    [529, answerError(529), "server_error"],
    [400, answerError(400, { message: "API key not valid. Please pass a valid API key." }), "unauthorized"],
  ])("falls back to the next route after a %i", async ([status, script, failure]) => {
    first.script = script;
    const { outcome, run } = await ask(model, how);
    expect(outcome).toBe("hi");
    expect(run).toMatchObject({ status: "succeeded", usage_source: "provider", cost_usd: "0.000280000000", route: 2 });
    expect(run.attempts).toMatchObject([
      { route: 1, provider: "first", status, failure, upstream_request_id: "req_bad" },
      { route: 2, provider: "second", status: 200, upstream_request_id: "req_good" },
    ]);
  });

  test("falls back from a hanging route and records that its provider may have charged", async () => {
    first.script = hang;
    const { outcome, run } = await ask(model, how);
    expect(outcome).toBe("hi");
    expect(run).toMatchObject({ status: "succeeded", usage_source: "provider_partial" });
    expect(run.attempts).toMatchObject([
      { route: 1, failure: "timeout", may_have_charged: true },
      { route: 2, status: 200 },
    ]);
  });

  // OpenRouter sends the second form: https://openrouter.ai/docs/api-reference/errors
  test.for<[string, object]>([
    ["an error instead of an answer", {}],
    ["an error alongside a choice", { choices: [{ index: 0, finish_reason: "error", delta: { content: "" } }] }],
  ])("falls back to the next route after status 200 with %s", async ([, rest]) => {
    const answer = { ...rest, error: { code: "server_error", message: "The server had an error." } };
    for (const type of ["application/json", "text/event-stream"]) {
      const isStream = type === "text/event-stream";
      if (isStream && !how.stream) continue;
      first.script = (response) =>
        response
          .writeHead(200, { "content-type": type })
          .end(isStream ? `: hello\n\ndata: ${JSON.stringify(answer)}\n\n` : JSON.stringify(answer));
      const { outcome, run } = await ask(model, how);
      expect(outcome).toBe("hi");
      expect(run).toMatchObject({ usage_source: "provider", attempts: [{ failure: "server_error" }, { status: 200 }] });
    }
  });

  test("falls back to the next route if a provider answers 200 with a web page", async () => {
    first.script = (response) => response.writeHead(200, { "content-type": "text/html" }).end("\n<!doctype html>");
    const { outcome, run } = await ask(model, how);
    expect(outcome).toBe("hi");
    expect(run).toMatchObject({
      usage_source: "provider",
      attempts: [{ status: 200, failure: "invalid_answer" }, { status: 200 }],
    });
  });
});

test("three calls wait for a hanging route, and later runs record that the route was skipped", async () => {
  first.script = hang;
  first.calls = 0;
  const runs = [];
  for (let n = 0; n < 4; n++) runs.push((await ask(model, streamed)).run);
  expect(first.calls).toBe(3);
  expect(runs.at(-1)?.attempts).toMatchObject([
    { route: 1, failure: "skipped" },
    { route: 2, status: 200 },
  ]);
  expect(runs.at(-1)).toMatchObject({ usage_source: "provider", marks: [] });
});

describe.for([whole, streamed])("a provider error from a model's only route: %j", (how) => {
  test.for<[string, Script, object]>([
    [
      "shorten the input",
      answerError(400, { code: "context_length_exceeded", message: "secret" }),
      { status: 400, code: "context_length_exceeded" },
    ],
    ["change the content", answerError(400, { code: "content_filter" }), { status: 400, code: "content_filter" }],
    ["change the request", answerError(400, { code: "bad_value" }), { status: 400, code: "invalid_request" }],
    ["wait", answerError(429, {}, { "retry-after": "17" }), { status: 429, code: "rate_limit_exceeded", after: "17" }],
    [
      "wait until an overload passes",
      answerError(503, {}, { "retry-after": "9" }),
      { status: 502, code: "provider_error", after: "9" },
    ],
    ["nothing", answerError(401, { message: "secret" }), { status: 502, code: "provider_error" }],
  ])(
    "without another route, the status and code of the error tell the client what to do: %s",
    async ([, script, expected]) => {
      first.script = script;
      const { outcome, run } = await ask(alone, how);
      const { status, code, message, headers } = outcome as InstanceType<typeof OpenAI.APIError>;
      const after = headers?.get("retry-after") ?? undefined;
      expect({ status, code, ...(after ? { after } : {}) }).toEqual(expected);
      expect(message).not.toContain("secret");
      expect(run).toMatchObject({
        status: "failed",
        http_status: status,
        error_code: code,
        usage_source: "unavailable",
      });
    },
  );

  test("a stream whose first event is an error fails with an error status, not as an empty stream", async () => {
    first.script = (response) =>
      response
        .writeHead(200, { "content-type": "text/event-stream" })
        .end('data: {"error":{"code":"server_error"}}\n\n');
    if (!how.stream) return;
    const { outcome, run } = await ask(alone, how);
    expect(outcome).toMatchObject({ status: 502, code: "provider_error" });
    expect(run).toMatchObject({ status: "failed", usage_source: "unavailable", cost_usd: "0.000000000000" });
  });
});

test.for(["text/plain", "application/octet-stream", "application/x-ndjson", ""])(
  "recognizes an event stream labelled %j",
  async (type) => {
    first.script = answerAs(type);
    const { outcome, run } = await ask(alone, streamed);
    expect(outcome).toBe("hi");
    expect(run).toMatchObject({ usage_source: "provider", cost_usd: "0.000280000000" });
  },
);

test("sends providers the run's id as x-request-id, never the client's id", async () => {
  const requestId = `of-the-client-${randomUUID()}`;
  const told: object[] = [];
  const noting =
    (script: Script): Script =>
    (response, call) => {
      told.push(call.request.headers);
      script(response, call);
    };
  first.script = noting(answerError(500));
  second.script = noting(answerWell);
  const client = gateway.clientOf(tenant.key, { "x-request-id": requestId });
  const messages = [{ role: "user" as const, content: "hello" }];
  const answer = await client.chat.completions.create({ model, messages });
  const { platform } = answer as unknown as { platform: { run_id: string } };
  const { run } = await tenant.accountOf(requestId);
  expect(run).toMatchObject({ id: platform.run_id });
  expect(told).toMatchObject([{ "x-request-id": platform.run_id }, { "x-request-id": platform.run_id }]);
  expect(JSON.stringify([told, first.bodies, second.bodies])).not.toContain(requestId);
});

test("fails rather than fall back to a provider outside the allowed regions, and lists each model's regions", async () => {
  const allow = (regions: string[] | null) =>
    tenant.db.query(
      `insert into ai.workspace_policies (workspace_id, allowed_regions) values ($1, $2)
       on conflict (workspace_id) do update set allowed_regions = excluded.allowed_regions`,
      [tenant.workspaceId, regions],
    );
  const regionsOf = async () => {
    const listed = await gateway.clientOf(tenant.key).models.retrieve(model);
    return (listed as unknown as { platform: { regions: string[] } }).platform.regions;
  };
  const messages = [{ role: "user" as const, content: "hello" }];
  first.script = answerError(500);
  expect(await regionsOf()).toEqual(["eu", "us"]);
  await allow(["eu"]);
  try {
    const received = second.bodies.length;
    const { outcome, run } = await ask(model);
    expect(outcome).toMatchObject({ status: 502, code: "provider_error" });
    expect(run.attempts).toMatchObject([{ route: 1, provider: "first", failure: "server_error" }]);
    expect(second.bodies).toHaveLength(received);
    expect(await regionsOf()).toEqual(["eu"]);
    await allow(["ch"]);
    const refused = gateway.clientOf(tenant.key).chat.completions.create({ model: alone, messages });
    await expect(refused).rejects.toMatchObject({ status: 403, code: "region_not_allowed", param: "model" });
  } finally {
    await allow(null);
  }
});
