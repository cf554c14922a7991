import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { problem } from "../../http/problem.ts";
import { postJson } from "./server.ts";

let server: Server;
let base: string;

beforeAll(async () => {
  server = createServer(async (request, response) => {
    const code = request.url?.slice(1) as "MFA_REQUIRED" | "FORBIDDEN" | "AUTH_UNAVAILABLE";
    const refusal = problem(code, { requestId: "request-1", detail: "Why." });
    response.writeHead(refusal.status, { "content-type": "application/problem+json" }).end(await refusal.text());
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());

test("adding a passkey while a required second factor is pending asks for a page reload", async () => {
  expect(await postJson(`${base}/MFA_REQUIRED`, {})).toMatchObject({ ok: false, status: 0 });
});

test("a refusal to add a passkey includes the reason", async () => {
  expect(await postJson(`${base}/FORBIDDEN`, {})).toMatchObject({ ok: false, status: 403, detail: "Why." });
});

test("a server error while adding a passkey includes the request ID", async () => {
  expect(await postJson(`${base}/AUTH_UNAVAILABLE`, {})).toMatchObject({ detail: "Why. Request ID: request-1" });
});

test("a network failure while adding a passkey says that the server is unreachable", async () => {
  expect(await postJson("http://127.0.0.1:9/x", {})).toMatchObject({ ok: false, status: -1 });
});
