import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { createDrain } from "./drain.ts";

/** Starts a server and sends it a request. The server answers as `answer` says. */
async function start(limits: { requestMs: number; streamMs: number }, answer: (response: ServerResponse) => void) {
  const server = createServer();
  const drain = createDrain(server, limits);
  let arrived: (response: ServerResponse) => void = () => {};
  const request = new Promise<ServerResponse>((resolve) => {
    arrived = resolve;
  });
  server.on("request", (_, response) => {
    answer(response);
    arrived(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const body = fetch(`http://127.0.0.1:${port}`).then(async (response) => response.text());
  const result = body.catch(() => "cut off");
  return { drain, result, response: await request };
}

const begin = (response: ServerResponse) => response.writeHead(200, { connection: "close" }).write("begun ");

test("a stream that has begun continues after the time for pending requests", async () => {
  const { drain, result, response } = await start({ requestMs: 10, streamMs: 60_000 }, begin);
  const stopped = drain();
  await new Promise((resolve) => setTimeout(resolve, 50));
  response.end("and ended");
  expect(await result).toBe("begun and ended");
  await stopped;
});

test("a stream that does not end is ended", async () => {
  const { drain, result } = await start({ requestMs: 10, streamMs: 20 }, begin);
  await drain();
  expect(await result).toBe("cut off");
});

test("a request whose response does not begin in time is ended", async () => {
  const { drain, result } = await start({ requestMs: 10, streamMs: 60_000 }, () => {});
  await drain();
  expect(await result).toBe("cut off");
});

test("a request whose response begins in time is answered", async () => {
  const { drain, result, response } = await start({ requestMs: 60_000, streamMs: 60_000 }, () => {});
  const stopped = drain();
  response.writeHead(200, { connection: "close" }).end("answered");
  expect(await result).toBe("answered");
  await stopped;
});
