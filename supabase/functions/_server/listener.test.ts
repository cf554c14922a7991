import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createBodyReader } from "../_gateway/http/body.ts";
import { createBodyMemory } from "../_gateway/http/body-memory.ts";
import { createListener, type FetchHandler } from "./listener.ts";

const size = 400_000;
let server: Server;
let handle: FetchHandler;
const errors: unknown[] = [];
const noteError = (error: unknown) => void errors.push(error);
const sockets: Socket[] = [];

beforeEach(async () => {
  errors.length = 0;
  // Without this handler, an uncaught error would end the process.
  process.prependListener("uncaughtException", noteError);
  const listener = createListener(
    (request, info) => handle(request, info),
    () => new Response("failed", { status: 500 }),
  );
  server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
});
afterEach(async () => {
  process.off("uncaughtException", noteError);
  for (const socket of sockets.splice(0)) socket.destroy();
  server.close();
  server.closeAllConnections();
  await once(server, "close");
});

/** Opens a connection and announces a body of 400 KB. */
async function announce(): Promise<{ socket: Socket; answered: (text: string) => Promise<void> }> {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const socket = connect({ host: "127.0.0.1", port: address.port }).on("error", () => {});
  sockets.push(socket);
  let received = "";
  socket.setEncoding("utf8").on("data", (text) => {
    received += text;
  });
  await once(socket, "connect");
  socket.write(`POST / HTTP/1.1\r\nhost: local\r\ncontent-length: ${size}\r\n\r\n`);
  return { socket, answered: (text) => expect.poll(() => received).toContain(text) };
}

/** Reads the first chunk of a body, pauses, and refuses the rest. */
const refuse: FetchHandler = async (request) => {
  const reader = request.body?.getReader();
  await reader?.read();
  await sleep(20);
  await reader?.cancel();
  return new Response("refused", { status: 401 });
};

describe("request bodies that a function cancels", () => {
  test("discards the rest of a request body that the function cancelled, and serves the connection's next request", async () => {
    handle = refuse;
    const { socket, answered } = await announce();
    socket.write(Buffer.alloc(size, 0x20));
    await answered("401 Unauthorized");
    handle = async (request) => new Response(`next ${(await request.text()).length}`);
    socket.write("POST / HTTP/1.1\r\nhost: local\r\ncontent-length: 3\r\n\r\nabc");
    await answered("next 3");
    expect(errors).toEqual([]);
  });

  test("discards a cancelled request body even if it arrives after the response", async () => {
    handle = refuse;
    const { socket, answered } = await announce();
    socket.write(Buffer.alloc(10_000, 0x20));
    await answered("401 Unauthorized");
    socket.write(Buffer.alloc(size - 10_000, 0x20));
    handle = () => new Response("next");
    socket.write("GET / HTTP/1.1\r\nhost: local\r\n\r\n");
    await answered("next");
    expect(errors).toEqual([]);
  });

  test("the rest of a cancelled request body causes no error if it arrives after a 408", async () => {
    const budget = { uncheckedEach: size, uncheckedAll: size, workspaceAll: size, checkedAll: size };
    const read = createBodyReader(createBodyMemory(6 * size), { ...budget, idleMs: 50, msPerMebibyte: 1_000 });
    handle = async (request) => {
      const refused = read(request, { limitBytes: size, check: async () => "anyone" });
      return new Response("slow", { status: await refused.then(() => 200).catch(({ status }) => status) });
    };
    const { socket, answered } = await announce();
    socket.write(Buffer.alloc(10_000, 0x20));
    await answered("408 Request Timeout");
    socket.write(Buffer.alloc(size - 10_000, 0x20));
    handle = () => new Response("next");
    socket.write("GET / HTTP/1.1\r\nhost: local\r\n\r\n");
    await answered("next");
    expect(errors).toEqual([]);
  });

  test("a cancelled request body causes no error if the client disconnects", async () => {
    handle = refuse;
    const { socket, answered } = await announce();
    socket.write(Buffer.alloc(10_000, 0x20));
    await answered("401 Unauthorized");
    socket.destroy();
    await sleep(20);
    expect(errors).toEqual([]);
  });
});

test("a client disconnecting in the middle of a request body fails only the read of that body", async () => {
  const reading = new Promise<unknown>((resolve) => {
    handle = async (request) => {
      await request.text().catch(resolve);
      return new Response();
    };
  });
  const { socket } = await announce();
  socket.write(Buffer.alloc(10_000, 0x20), () => socket.destroy());
  expect(await reading).toBeInstanceOf(Error);
  expect(errors).toEqual([]);
});

test("an unread request body does not block later requests on the same connection", async () => {
  handle = () => new Response("unread");
  const { socket, answered } = await announce();
  socket.write(Buffer.alloc(size, 0x20));
  await answered("unread");
  handle = () => new Response("later");
  socket.write("GET / HTTP/1.1\r\nhost: local\r\n\r\n");
  await answered("later");
  expect(errors).toEqual([]);
});

test("sends the parts of a JSON response as they come if it must not be buffered", async () => {
  let finish = () => {};
  handle = async () => {
    const body = new ReadableStream<string>({
      start(controller) {
        controller.enqueue("\n");
        finish = () => {
          controller.enqueue('{"whole":true}');
          controller.close();
        };
      },
    });
    const headers = { "content-type": "application/json", "x-accel-buffering": "no" };
    return new Response(body.pipeThrough(new TextEncoderStream()), { headers });
  };
  const { port } = server.address() as AddressInfo;
  // Resolves once the headers have arrived.
  const response = await fetch(`http://127.0.0.1:${port}`, { method: "POST", body: "{}" });
  finish();
  expect(await response.json()).toEqual({ whole: true });
});
