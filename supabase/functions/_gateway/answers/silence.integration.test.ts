import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createMessagesClient } from "../../../tests/gateway/messages-client.ts";
import { createPricedModel } from "../../../tests/gateway/priced-model.ts";
import { hang, type ScriptedProvider, startScriptedProvider } from "../../../tests/gateway/scripted-provider.ts";
import { answerText, startSilentProvider, usage } from "../../../tests/gateway/silent-provider.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

let tenant: GatewayTenant;
let silent: Awaited<ReturnType<typeof startSilentProvider>>;
let hanging: ScriptedProvider;
let gateway: InProcessGateway;
let chat: string;
let claude: string;
/** A model whose first route hangs, and one that has only that route. */
let backed: string;
let lost: string;

beforeAll(async () => {
  [tenant, silent, hanging] = await Promise.all([
    createGatewayTenant(),
    startSilentProvider({ streamMs: 300, wholeMs: 300 }),
    startScriptedProvider(hang),
  ]);
  [chat, claude, backed, lost] = await Promise.all([
    createPricedModel(tenant, { providers: ["silent"] }),
    createPricedModel(tenant, { providers: ["claude"] }),
    createPricedModel(tenant, { providers: ["hanging", "silent"] }),
    createPricedModel(tenant, { providers: ["hanging"] }),
  ]);
  const settings = {
    AI_PROVIDER_SILENT_KIND: "openai",
    AI_PROVIDER_SILENT_BASE_URL: silent.url,
    AI_PROVIDER_SILENT_API_KEY: "k",
    AI_PROVIDER_CLAUDE_KIND: "anthropic",
    AI_PROVIDER_CLAUDE_BASE_URL: silent.url,
    AI_PROVIDER_CLAUDE_API_KEY: "k",
    AI_PROVIDER_HANGING_BASE_URL: hanging.url,
    AI_PROVIDER_HANGING_TOTAL_SECONDS: "1",
  };
  gateway = await openGateway(settings, undefined, { beginMs: 20, keepaliveMs: 20 });
});
afterAll(async () => {
  await gateway.close();
  await tenant.close();
  silent.close();
  hanging.close();
});

const content = "Say hello.";
const messages = [{ role: "user" as const, content }];
const newId = () => `it-${randomUUID()}`;
const openai = (id: string) => gateway.clientOf(tenant.key, { "x-request-id": id });
const anthropic = () => createMessagesClient({ baseUrl: "http://gateway.test", key: tenant.key, fetch: gateway.fetch });

type Call = (id: string) => Promise<string | null | undefined>;
const clients: [string, Call][] = [
  ["openai, a chat stream", (id) => openai(id).chat.completions.stream({ model: chat, messages }).finalContent()],
  [
    "openai, a whole chat",
    async (id) => (await openai(id).chat.completions.create({ model: chat, messages })).choices[0]?.message.content,
  ],
  [
    "openai, a streamed response",
    async (id) => (await openai(id).responses.stream({ model: chat, input: content }).finalResponse()).output_text,
  ],
  [
    "openai, a whole response",
    async (id) => (await openai(id).responses.create({ model: chat, input: content })).output_text,
  ],
  [
    "a Messages API stream",
    async (id) => {
      const params = { model: claude, max_tokens: 100, messages };
      return (await anthropic().streamWhole(params, { headers: { "x-request-id": id } })).content[0]?.text;
    },
  ],
];

test.for(clients)(
  "a client gets the answer of a model that is silent for long, and pays for it exactly: %s",
  async ([, call]) => {
    const id = newId();
    expect(await call(id)).toBe(answerText);
    const { run } = await tenant.accountOf(id);
    expect(run).toMatchObject({
      status: "succeeded",
      usage_source: "provider",
      input_tokens: usage.input,
      output_tokens: usage.output,
    });
  },
);

/** Sends a call. @returns the response with its text, and the run */
async function send(path: string, body: object) {
  const id = newId();
  const headers = { authorization: `Bearer ${tenant.key}`, "content-type": "application/json", "x-request-id": id };
  const init = { method: "POST", headers, body: JSON.stringify(body) };
  const response = await gateway.fetch(`http://gateway.test/v1/${path}`, init);
  return { status: response.status, text: await response.text(), run: (await tenant.accountOf(id)).run };
}

describe("A response that begins before its answer", () => {
  const sorts = [
    ["chat/completions", { messages, stream: true }, /^: keepalive$/m],
    ["chat/completions", { messages, stream: false }, /^\n\n/],
    ["responses", { input: content, stream: true }, /^event: response.in_progress$/m],
    ["messages", { messages, max_tokens: 100, stream: true }, /^event: ping$/m],
  ] as const;

  test.for(sorts)("is kept alive before and between its events: %s %j", async ([path, body, keepalive]) => {
    const { status, text } = await send(path, { model: path === "messages" ? claude : chat, ...body });
    expect(status).toBe(200);
    const [before = "", after = ""] = text.split(/Hello (?!after)/);
    expect(before).toMatch(keepalive);
    if (body.stream) expect(after).toMatch(keepalive);
  });

  test.for([true, false])("may still come from another route, and both are charged (stream: %s)", async (stream) => {
    const { status, text, run } = await send("chat/completions", { model: backed, messages, stream });
    expect(status).toBe(200);
    expect(text).toContain("Hello ");
    expect(run).toMatchObject({ status: "succeeded", usage_source: "provider_partial" });
    expect(run.attempts).toMatchObject([{ failure: "timeout", may_have_charged: true }, { route: 2 }]);
    expect(run.input_tokens).toBeGreaterThan(usage.input);
  });

  test.for([true, false])(
    "ends with an error if no route answers, and is charged an estimate (stream: %s)",
    async (stream) => {
      const { status, text, run } = await send("chat/completions", { model: lost, messages, stream });
      expect(status).toBe(200);
      expect(JSON.parse(text.slice(text.indexOf("{")))).toMatchObject({ error: { code: "provider_timeout" } });
      expect(run).toMatchObject({
        status: "failed",
        http_status: 200,
        error_code: "provider_timeout",
        usage_source: "estimated_partial",
        output_tokens: 0,
      });
      expect(Number(run.cost_usd)).toBeGreaterThan(0);
    },
  );
});
