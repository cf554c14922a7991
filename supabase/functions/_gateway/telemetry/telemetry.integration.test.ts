import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { readStack } from "../../../../scripts/test/stack.ts";
import { type InProcessGateway, openGateway } from "../../../tests/gateway/in-process.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";

const planted = `planted${randomUUID().replaceAll("-", "")}`;
const collected: string[] = [];
const collector = createServer(async (request, response) => {
  for await (const chunk of request) collected.push(String(chunk));
  response.end("{}");
});

let tenant: GatewayTenant;
let gateway: InProcessGateway;
const logged: string[] = [];
const complained = vi.spyOn(console, "error").mockImplementation((line) => void logged.push(String(line)));

beforeAll(async () => {
  await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
  tenant = await createGatewayTenant();
  const { port } = collector.address() as AddressInfo;
  gateway = await openGateway(
    {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
      OTEL_EXPORTER_OTLP_HEADERS: `x-collector=${planted}`,
      AI_LOG: "json",
    },
    (line) => logged.push(line),
  );
});
afterAll(async () => {
  complained.mockRestore();
  await gateway.close();
  await tenant.close();
  collector.close();
});

const chat = (content: unknown, fields: object = {}) =>
  ({ model: "demo-chat", messages: [{ role: "user", content }], ...fields }) as never;

test("traces and logs describe what happened, without secrets, prompts, answers or tool contents", async () => {
  const { completions } = gateway.clientOf(tenant.key, { "idempotency-key": planted }).chat;
  const fresh = () => ({ headers: { "idempotency-key": `${planted}${randomUUID()}` } });
  const whole = (await completions.create(
    chat(
      [
        { type: "text", text: `say ${planted}` },
        { type: "image_url", image_url: { url: `https://example.com/${planted}.png` } },
      ],
      { user: planted, metadata: { [planted]: planted }, prompt_cache_key: planted, stop: [`${planted}stop`] },
    ),
  )) as unknown as { platform: { trace_id: string; run_id: string }; choices: { message: { content: string } }[] };
  expect(whole.choices[0]?.message.content).toContain(planted);
  for await (const _ of (await completions.create(
    chat(planted, { stream: true }),
    fresh(),
  )) as unknown as AsyncIterable<unknown>);
  await completions.create(
    chat(`call calculator with {"expression":"${planted}"}`, { platform: { tools: ["calculator"] } }),
    fresh(),
  );
  await completions.create(chat(planted, { model: "demo-error-500" }), fresh()).catch(() => {});
  await completions.create(chat(planted, { model: `no-${planted}` }), fresh()).catch(() => {});
  await completions.create(chat(planted, { [planted]: 1, n: planted }), fresh()).catch(() => {});
  await gateway
    .clientOf(`ttr_ai_${planted}`)
    .chat.completions.create(chat(planted))
    .catch(() => {});
  await gateway.settled();

  const spans = collected.flatMap((body) => JSON.parse(body).resourceSpans[0].scopeSpans[0].spans);
  const traced = spans.filter(({ traceId }) => traceId === whole.platform.trace_id);
  expect(traced.map(({ name }) => name)).toEqual(["POST /chat/completions", "chat demo-chat"]);
  expect(spans.map(({ name }) => name)).toContain("execute_tool calculator");
  expect(spans.filter(({ name, status }) => name === "chat demo-error-500" && status.code === 2)).toHaveLength(1);

  const lines = logged.map((line) => JSON.parse(line));
  expect(lines.filter(({ event }) => event === "run")).toHaveLength(4);
  expect(lines.filter(({ event }) => event === "request").map(({ status, code }) => [status, code])).toEqual([
    [200, undefined],
    [200, undefined],
    [200, undefined],
    [502, "provider_error"],
    [404, "model_not_found"],
    [400, "invalid_request"],
    [401, "invalid_api_key"],
  ]);
  expect(lines.find(({ run_id }) => run_id === whole.platform.run_id)).toMatchObject({
    status: "succeeded",
    usage_source: "provider",
  });

  const all = [...collected, ...logged].join("\n");
  const secrets = [
    planted,
    tenant.key,
    tenant.key.slice(-20),
    readStack().providerKey,
    "This answer comes from",
    "Bearer",
  ];
  for (const secret of secrets) expect(all).not.toContain(secret);
});
