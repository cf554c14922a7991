import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { describeGatewayFault, readProviderListing, testRoute } from "./provider-setup.ts";

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
  server = undefined;
});

/** Starts a gateway that answers as given. Returns the context of requests to it. */
async function startGateway(answer: RequestListener) {
  const started = createServer(answer);
  server = started;
  await new Promise<void>((resolve) => started.listen(0, "127.0.0.1", resolve));
  return contextOf(`http://127.0.0.1:${(started.address() as AddressInfo).port}`);
}

function contextOf(url: string) {
  const env = { AI_URL: url, SUPABASE_SECRET_KEY: "sb_secret_web" };
  return { env, requestId: "request-1", clientAddress: "192.0.2.1" } as Parameters<typeof readProviderListing>[0];
}

const replyWith =
  (status: number, body: unknown): RequestListener =>
  (_, response) =>
    void response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));

const signal = new AbortController().signal;
const openaiTest = { provider: "openai", model: "gpt-4.1-mini", endpoint: "chat" } as const;
const openai = {
  id: "openai",
  kind: "openai",
  endpoints: ["chat"],
  region: null,
  billingName: null,
  account: null,
  hasKey: true,
};
const listing = { providers: [openai], kinds: [{ name: "openai", needs: ["KIND", "API_KEY"], endpoints: ["chat"] }] };

test("reads the configured providers with this server's key", async () => {
  const requests: unknown[] = [];
  const context = await startGateway((request, response) => {
    requests.push([request.method, request.url, request.headers.apikey, request.headers["x-request-id"]]);
    replyWith(200, { ...listing, later: "a member of a later release" })(request, response);
  });
  expect(await readProviderListing(context, { signal })).toEqual({ listing, fault: null });
  expect(requests).toEqual([["GET", "/v1/providers", "sb_secret_web", "request-1"]]);
});

test.for<[string, RequestListener, string]>([
  ["refuses the key", replyWith(401, { error: { code: "invalid_api_key" } }), "refused_key"],
  ["is of an older release", replyWith(404, { error: { code: "not_found" } }), "too_old"],
  ["doesn't start", replyWith(503, { code: "BOOT_ERROR" }), "not_ready"],
  ["answers something else", replyWith(200, { providers: "none" }), "invalid_answer"],
  ["answers without JSON", (_, response) => void response.end("<html>"), "invalid_answer"],
  ["redirects", (_, response) => void response.writeHead(302, { location: "/" }).end(), "unreachable"],
  ["closes the connection", (request) => void request.socket.destroy(), "unreachable"],
  [
    "stops within its answer",
    (request, response) => response.writeHead(200).write("{", () => void request.socket.destroy()),
    "unreachable",
  ],
  ["doesn't answer within a second", () => {}, "timeout"],
])("says why the providers are not known if the gateway %s", async ([, answer, fault]) => {
  const context = await startGateway(answer);
  const startedAt = performance.now();
  expect(await readProviderListing(context, { signal })).toEqual({ listing: null, fault });
  expect(performance.now() - startedAt).toBeLessThan(3_000);
});

test("says that nothing listens at the gateway's address", async () => {
  expect(await readProviderListing(contextOf("http://127.0.0.1:9"), { signal })).toEqual({
    listing: null,
    fault: "unreachable",
  });
});

test("a test call sends the route, and returns the facts of the answer or of the failure", async () => {
  const facts = { latencyMs: 12, upstreamRequestId: null };
  const answered = { ok: true, ...facts, usage: { input_tokens: 3 }, estimated: false, servedTier: null };
  const failed = { ok: false, ...facts, failure: "unauthorized", status: 401, retryAfterSeconds: null };
  const bodies: unknown[] = [];
  let answer: object = answered;
  const context = await startGateway(async (request, response) => {
    bodies.push(JSON.parse((await request.toArray()).join("")));
    replyWith(200, answer)(request, response);
  });
  expect(await testRoute(context, { ...openaiTest, signal })).toEqual({ outcome: "answered", ...answered });
  answer = failed;
  expect(await testRoute(context, { ...openaiTest, signal })).toEqual({ outcome: "failed", ...failed });
  expect(bodies).toEqual([openaiTest, openaiTest]);
});

test.for<[string, RequestListener, object]>([
  [
    "can't serve the route",
    replyWith(400, { error: { code: "invalid_request", param: "provider" } }),
    { outcome: "refused", param: "provider" },
  ],
  ["refuses without a reason", replyWith(400, "no"), { outcome: "refused", param: null }],
  ["names an unknown failure", replyWith(200, { ok: false }), { outcome: "fault", fault: "invalid_answer" }],
  ["is of an older release", replyWith(404, {}), { outcome: "fault", fault: "too_old" }],
])("says why there is no test result if the gateway %s", async ([, answer, result]) => {
  expect(await testRoute(await startGateway(answer), { ...openaiTest, signal })).toEqual(result);
});

test("ends a test call when the admin leaves", async () => {
  const leaving = new AbortController();
  const context = await startGateway(() => leaving.abort());
  expect(await testRoute(context, { ...openaiTest, signal: leaving.signal })).toMatchObject({ outcome: "fault" });
});

test.for(["unreachable", "timeout", "refused_key", "too_old", "not_ready", "invalid_answer"] as const)(
  "says what to do about the fault %s",
  (fault) => {
    expect(describeGatewayFault(fault)).toMatch(/^The gateway.+\. .+\.$/);
  },
);
