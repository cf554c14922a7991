import { once } from "node:events";
import { connect, createServer } from "node:net";
import { freePort } from "@gatehousehq/local-stack/ports";
import { afterEach, expect, test, vi } from "vitest";
import { listen } from "./listen.ts";

const hostname = "127.0.0.1";
const onError = () => new Response(null, { status: 500 });

afterEach(() => void vi.useRealTimers());

/** Serves on a free port, and opens a connection. */
async function start(handle: () => Promise<Response>) {
  const port = await freePort();
  const listening = Promise.withResolvers<void>();
  const stop = listen(handle, { hostname, port, onListen: listening.resolve, onError });
  await listening.promise;
  const socket = connect(port, hostname)
    .setEncoding("utf8")
    .on("error", () => {});
  let received = "";
  socket.on("data", (text) => (received += text));
  await once(socket, "connect");
  return { stop, socket, received: () => received };
}

test("stops although a connection has sent no request, or only a part of one", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "setTimeout", "clearTimeout"] });
  const { stop, socket } = await start(async () => new Response("ok"));
  socket.write("GET / HTTP/1.1\r\nHo");
  const closed = new Promise((resolve) => socket.once("close", resolve));
  const stopped = stop(300_000);
  await vi.advanceTimersByTimeAsync(1_000);
  await Promise.all([stopped, closed]);
  expect(socket.destroyed).toBe(true);
});

test("waits for a response in progress, and no longer", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "setTimeout", "clearTimeout"] });
  const [started, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<Response>()];
  const { stop, socket, received } = await start(() => {
    started.resolve();
    return answer.promise;
  });
  socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  await started.promise;
  const stopped = stop(300_000);
  await vi.advanceTimersByTimeAsync(10_000);
  answer.resolve(new Response("complete"));
  await vi.waitFor(() => expect(received()).toContain("complete"));
  await vi.advanceTimersByTimeAsync(1_000);
  await stopped;
});

test("says why it can't listen", async () => {
  const port = await freePort();
  const owner = createServer().listen(port, hostname);
  await once(owner, "listening");
  const failure = Promise.withResolvers<NodeJS.ErrnoException>();
  listen(async () => new Response(), { hostname, port, onListen: () => {}, onFailure: failure.resolve, onError });
  expect((await failure.promise).code).toBe("EADDRINUSE");
  owner.close();
});
