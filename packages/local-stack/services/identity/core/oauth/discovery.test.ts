import { createServer, type Server } from "node:http";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openDiscovery } from "./discovery.ts";

let server: Server;
let issuer: string;
let asked: number;
let isUp: boolean;
beforeEach(async () => {
  asked = 0;
  isUp = true;
  server = createServer((_request, response) => {
    asked += 1;
    response.writeHead(isUp ? 200 : 503, { "Content-Type": "application/json" });
    response.end(JSON.stringify({ issuer }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no address");
  issuer = `http://127.0.0.1:${address.port}`;
});
afterEach(() => new Promise((resolve) => server.close(resolve)));

test("fetches a provider's discovery document at most once an hour, even for 50 concurrent requests", async () => {
  let now = 0;
  const discover = openDiscovery(() => new Date(now));
  await Promise.all(Array.from({ length: 50 }, () => discover(issuer)));
  now = 3_599_999;
  await discover(issuer);
  expect(asked).toBe(1);
  now = 3_600_000;
  await discover(issuer);
  expect(asked).toBe(2);
});

test("retries a failed discovery on the next request", async () => {
  const discover = openDiscovery(() => new Date(0));
  isUp = false;
  await expect(discover(issuer)).rejects.toThrow();
  isUp = true;
  await expect(discover(issuer)).resolves.toMatchObject({ server: { issuer } });
});
