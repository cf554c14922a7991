import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { afterEach, expect, test } from "vitest";
import { createDelayingProxy, type DelayingProxy } from "./proxy.ts";

let echo: Server;
let proxy: DelayingProxy;
afterEach(async () => {
  await proxy.close();
  echo.close();
});

async function listen(onSocket: Parameters<typeof createServer>[1]): Promise<number> {
  echo = createServer(onSocket);
  echo.listen(0, "127.0.0.1");
  await once(echo, "listening");
  return (echo.address() as AddressInfo).port;
}

test("the fault proxy holds connections until a target is set, and keeps the order of delayed bytes", async () => {
  const port = await listen((socket) => socket.pipe(socket));
  proxy = await createDelayingProxy();
  const client = connect(proxy.port, "127.0.0.1");
  client.write("before ");
  proxy.passTo(port);
  await once(client, "data");
  proxy.delay({ fromMs: 20, toMs: 60 });
  let said = "";
  client.on("data", (chunk) => (said += chunk));
  const started = performance.now();
  for (const word of ["one ", "two ", "three"]) {
    client.write(word);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  while (said !== "one two three") await once(client, "data");
  expect(performance.now() - started).toBeGreaterThan(40);
  client.destroy();
});

test("closes each side of a connection when the other side hangs up", async () => {
  const port = await listen((socket) => socket.on("data", () => socket.resetAndDestroy()));
  proxy = await createDelayingProxy();
  proxy.passTo(port);
  const client = connect(proxy.port, "127.0.0.1");
  client.on("error", () => undefined);
  client.write("bye");
  await once(client, "close");
  expect(client.destroyed).toBe(true);
});
