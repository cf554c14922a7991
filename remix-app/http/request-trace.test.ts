import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import type { Span } from "#shared/spans.ts";
import { createFetchWithTimeout } from "../supabase/backend-fetch.ts";
import { createRequestTraces } from "./request-trace.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Starts a server that is both the backend and the collector. */
async function open() {
  const bodies: string[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    if (request.url === "/v1/traces") bodies.push(body);
    response.writeHead(request.url?.startsWith("/missing") ? 404 : 200).end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(
    () => server.closeAllConnections(),
    () => server.close(),
  );
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const traces = createRequestTraces({ url: `${base}/v1/traces`, headers: {}, serviceName: "ours" }, () => {});
  const spans = async (): Promise<Span[]> => {
    await traces.flush();
    return bodies.flatMap((body) => JSON.parse(body).resourceSpans[0].scopeSpans[0].spans);
  };
  return { base, traces, spans, bodies };
}

const attributesOf = (span: Span | undefined) =>
  Object.fromEntries((span?.attributes ?? []).map(({ key, value }) => [key, Object.values(value)[0]]));
const described = { method: "GET", route: "/workspaces/:workspaceId", status: 200, requestId: "r" };

test("traces a request with a span for each call to a backend, without ids, queries or bodies", async () => {
  const { base, traces, spans, bodies } = await open();
  const call = createFetchWithTimeout(1_000);
  const id = "01a1ffdb-9437-7182-a50d-ced7edb238e2";
  await traces.trace(
    async () => {
      await Promise.all([
        call(`${base}/rest/v1/rpc/session_state?select=planted`, { method: "POST", body: '{"a":"planted"}' }),
        call(`${base}/missing/${id}/factors`, { headers: { authorization: "Bearer planted" } }),
      ]);
    },
    () => described,
  );
  const [root, ...calls] = await spans();
  expect(root).toMatchObject({ name: "GET /workspaces/:workspaceId", kind: 2, status: { code: 0 } });
  expect(attributesOf(root)).toEqual({
    "http.request.method": "GET",
    "http.route": "/workspaces/:workspaceId",
    "http.response.status_code": "200",
    "gatehouse.request.id": "r",
  });
  expect(calls.map(({ name, kind, status }) => [name, kind, status.code]).toSorted()).toEqual([
    ["GET /missing/{id}/factors", 3, 2],
    ["POST /rest/v1/rpc/session_state", 3, 0],
  ]);
  for (const span of calls) expect(span).toMatchObject({ traceId: root?.traceId, parentSpanId: root?.spanId });
  expect(root?.traceId).toMatch(/^[0-9a-f]{32}$/);
  const failed = calls.find(({ status }) => status.code === 2);
  expect(attributesOf(failed)).toMatchObject({ "http.response.status_code": "404", "error.type": "404" });
  for (const secret of ["planted", id]) expect(bodies.join()).not.toContain(secret);
});

test("gives concurrent requests traces of their own", async () => {
  const { base, traces, spans } = await open();
  const call = createFetchWithTimeout(1_000);
  await Promise.all(
    ["one", "other"].map((name) =>
      traces.trace(
        async () => void (await call(`${base}/rest/v1/${name}`)),
        () => ({ ...described, route: `/${name}` }),
      ),
    ),
  );
  const all = await spans();
  for (const root of all.filter(({ kind }) => kind === 2)) {
    const children = all.filter(({ parentSpanId }) => parentSpanId === root.spanId);
    expect(children.map(({ name }) => name)).toEqual([root.name.replace("/", "/rest/v1/")]);
  }
});

test("marks a request that failed with a 5xx, and a call that got no answer", async () => {
  const { traces, spans } = await open();
  const call = createFetchWithTimeout(1_000);
  await traces.trace(
    async () => void (await call("http://127.0.0.1:1/auth/v1/user").catch(() => null)),
    () => ({ ...described, route: undefined, status: 503 }),
  );
  const [root, failed] = await spans();
  expect(root).toMatchObject({ name: "GET", status: { code: 2 } });
  expect(failed).toMatchObject({ status: { code: 2 } });
  expect(attributesOf(failed)).toMatchObject({ "error.type": "no_answer" });
});

test("does not record calls outside of a traced request", async () => {
  const { base, spans } = await open();
  await createFetchWithTimeout(1_000)(`${base}/rest/v1/x`);
  expect(await spans()).toEqual([]);
});
