import { expect, test } from "vitest";
import { createBackgroundTasks } from "./background.ts";
import type { FetchHandler } from "./listener.ts";
import { startServer } from "./server.ts";

const remoteAddress = "2001:db8::7";

/** Starts a server that the test calls without a network. */
function start({ isDirect = false, reason }: { isDirect?: boolean; reason?: string } = {}) {
  const background = createBackgroundTasks(() => {});
  let handle: FetchHandler = () => new Response();
  let endResponses = () => {};
  const responsesEnd = new Promise<void>((resolve) => {
    endResponses = resolve;
  });
  const server = startServer({
    serveFunctions: async (request) => Response.json({ address: request.headers.get("x-forwarded-for") }),
    findReason: async () => reason,
    background,
    flush: async () => {},
    isDirect,
    listen(given) {
      handle = given;
      return () => responsesEnd;
    },
    hostname: "127.0.0.1",
    port: 0,
    onListen() {},
    onFailure: () => {},
  });
  async function get(path: string, headers: Record<string, string> = {}) {
    const response = await handle(new Request(`http://gateway.test${path}`, { headers }), { remoteAddress });
    return { status: response.status, connection: response.headers.get("connection"), body: await response.json() };
  }
  return { server, background, get, endResponses };
}

test("says why it is not ready, and is alive all the same", async () => {
  const { get } = start({ reason: "The database does not answer." });
  const body = { status: "unavailable", reason: "The database does not answer." };
  expect(await get("/readyz")).toMatchObject({ status: 503, body });
  expect(await get("/healthz")).toMatchObject({ status: 200, body: { status: "ok" } });
});

test("while it stops, is not ready, and answers calls on open connections, which it closes", async () => {
  const { server, get, endResponses } = start();
  expect(await get("/readyz")).toMatchObject({ status: 200, connection: null });
  const stopped = server.stop(1_000);
  expect(await get("/readyz")).toMatchObject({ status: 503, body: { reason: "The process is stopping." } });
  expect(await get("/functions/v1/models")).toMatchObject({ status: 200, connection: "close" });
  endResponses();
  expect(await stopped).toBe(0);
});

test("stops only after work that begins when the last response ends", async () => {
  const { server, background, endResponses } = start();
  const stopped = server.stop(1_000);
  let isSettled = false;
  const work = new Promise((resolve) => setTimeout(resolve, 20)).then(() => {
    isSettled = true;
  });
  background.waitUntil(work);
  endResponses();
  await stopped;
  expect(isSettled).toBe(true);
});

test("without a proxy, the caller's address is the connection's, not what the client states", async () => {
  const stated = { "x-forwarded-for": "192.0.2.1" };
  expect((await start({ isDirect: true }).get("/functions/v1/chat", stated)).body).toEqual({ address: remoteAddress });
  expect((await start().get("/functions/v1/chat", stated)).body).toEqual({ address: "192.0.2.1" });
});
