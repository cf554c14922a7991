import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { createFetchWithTimeout } from "./backend-fetch.ts";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** Starts a backend. @returns its URL, and the number of connections that it has accepted */
async function startBackend(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  let connections = 0;
  const server = createServer(answer).on("connection", () => {
    connections += 1;
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closing.push(() => server.close().closeAllConnections());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, connections: () => connections };
}

const generous = createFetchWithTimeout(10_000);

test("sends the method, headers and text, and returns the status, headers and text", async () => {
  const { url } = await startBackend(async (request, response) => {
    const { method, headers } = request;
    const received = (await request.toArray()).join("");
    response.writeHead(409, "Conflict", { "x-error-code": "taken" });
    response.end(JSON.stringify({ method, apikey: headers.apikey, length: headers["content-length"], received }));
  });
  for (const method of ["POST", "PATCH", "DELETE"]) {
    for (const headers of [{ apikey: "key" }, new Headers({ apikey: "key" })]) {
      const response = await generous(url, { method, headers, body: "Grüße" });
      expect([response.ok, response.status, response.statusText]).toEqual([false, 409, "Conflict"]);
      expect(response.headers.get("x-error-code")).toBe("taken");
      expect(await response.json()).toEqual({ method, apikey: "key", length: "7", received: "Grüße" });
    }
  }
});

test.each([204, 304])("returns a response without a body for status %d", async (status) => {
  const { url } = await startBackend((_, response) => response.writeHead(status).end());
  const response = await generous(url);
  expect([response.status, response.body]).toEqual([status, null]);
});

test("uses one connection for calls in sequence", async () => {
  const { url, connections } = await startBackend((_, response) => response.end("[]"));
  for (let call = 0; call < 5; call += 1) expect(await (await generous(url)).json()).toEqual([]);
  expect(connections()).toBe(1);
});

test.each([
  ["before the headers", () => {}],
  ["within the body", (response: ServerResponse) => response.writeHead(200).write("[")],
])("fails if the backend stops %s", async (_, begin) => {
  const { url } = await startBackend((_, response) => void begin(response));
  await expect(createFetchWithTimeout(100)(url)).rejects.toThrow();
  await expect(generous(url, { signal: AbortSignal.timeout(100) })).rejects.toThrow();
});

test("fails if the connection breaks within the body", async () => {
  const { url } = await startBackend((_, response) => {
    response.writeHead(200).write("[", () => response.destroy());
  });
  await expect(generous(url)).rejects.toThrow();
});

test("follows no redirect", async () => {
  const { url } = await startBackend((_, response) => response.writeHead(302, { location: "/elsewhere" }).end());
  expect((await generous(url)).status).toBe(302);
});
