import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { freePort } from "../../ports.ts";
import { type DenoPackage, functionsCommand } from "./deno-arguments.ts";

const root = path.resolve(import.meta.dirname, "../../../..");

type Runtime = { deno: DenoPackage; loop?: "deno" | "hosted" };
const everyRuntime: Runtime[] = [
  { deno: "deno" },
  { deno: "deno", loop: "deno" },
  { deno: "deno", loop: "hosted" },
  { deno: "deno-hosted", loop: "deno" },
  { deno: "deno-hosted" },
];
const runtimes = everyRuntime.filter(({ deno }) => deno === (process.env.LOCAL_DENO ?? "deno"));

/** The module of a server with functions for the test, in place of the product's. */
const serverModule = `
  import { createBackgroundTasks } from ${JSON.stringify(`${root}/supabase/functions/_server/background.ts`)};
  import { startServer } from ${JSON.stringify(`${root}/supabase/functions/_server/server.ts`)};
  const background = createBackgroundTasks((error) => console.error(error));
  let left = [];
  let waiting = 0;
  const functions = {
    async echo(request) {
      const { pathname, search } = new URL(request.url);
      return Response.json({ path: pathname + search, body: await request.text(), env: Deno.env.get("GREETING") });
    },
    throws() { throw new Error("inside"); },
    left: () => Response.json(left.sort()),
    async wait(request) {
      if (request.method === "GET") return new Response(String(waiting));
      await request.arrayBuffer();
      await new Promise((resolve) => request.signal.addEventListener("abort", resolve));
      waiting += 1;
      return new Response();
    },
    stream(request) {
      left = [];
      request.signal.addEventListener("abort", () => left.push("signal"));
      const chunks = new ReadableStream({
        async start(controller) {
          controller.enqueue(new TextEncoder().encode("first"));
          await request.text();
          if (request.url.endsWith("/whole")) controller.close();
        },
      });
      return new Response(chunks);
    },
    ticks(request) {
      left = [];
      request.signal.addEventListener("abort", () => left.push("signal"));
      let timer;
      let count = 0;
      const limit = Number(new URL(request.url).searchParams.get("limit") ?? Infinity);
      const chunks = new ReadableStream({
        start(controller) {
          timer = setInterval(() => {
            controller.enqueue(new TextEncoder().encode("tick"));
            if (++count < limit) return;
            clearInterval(timer);
            controller.close();
          }, 20);
        },
        cancel() {
          clearInterval(timer);
          left.push("stream");
        },
      });
      return new Response(chunks);
    },
    later() {
      background.waitUntil(Promise.reject(new Error("background failure")));
      background.waitUntil(new Promise((resolve) => setTimeout(() => { console.log("background work done"); resolve(); }, 400)));
      return new Response("accepted");
    },
  };
  export function startGateway(env, listen) {
    const server = startServer({
      serveFunctions: async (request) => functions[new URL(request.url).pathname.split("/")[1]](request),
      findReason: async () => undefined,
      background,
      flush: async () => {},
      isDirect: false,
      listen,
      hostname: "127.0.0.1",
      port: Number(env.PORT),
      onListen() {},
    });
    Deno.addSignalListener("SIGTERM", () => server.stop(5_000).then(() => Deno.exit(0)));
  }`;

/** Starts the module with the product's own way of listening. */
const ownListener = `
  import { listen } from ${JSON.stringify(`${root}/supabase/functions/_server/listen.ts`)};
  import { startGateway } from "./start-gateway.ts";
  startGateway(Deno.env.toObject(), listen);`;

type Host = { url: string; child: ChildProcess; output: () => string; stop: () => Promise<number | null> };

async function startHost(folder: string, { deno, loop }: Runtime = { deno: "deno" }): Promise<Host> {
  const port = await freePort();
  const { command, args } = functionsCommand(root, { deno, loop, folders: [folder], server: folder });
  const child = spawn(command, args, {
    cwd: root,
    env: {
      ...process.env,
      PORT: String(port),
      GREETING: "hello",
      ...(loop ? { LOCAL_RESPONSE_LOOP: loop } : {}),
    },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (output += chunk));
  const url = `http://127.0.0.1:${port}`;
  await vi.waitFor(() => fetch(`${url}/healthz`), { timeout: 15_000 });
  return {
    url,
    child,
    output: () => output,
    async stop() {
      if (child.exitCode === null) {
        child.kill("SIGTERM");
        await once(child, "exit");
      }
      return child.exitCode;
    },
  };
}

async function writeServer(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), "functions-"));
  await writeFile(path.join(folder, "start-gateway.ts"), serverModule);
  await writeFile(path.join(folder, "main.ts"), ownListener);
  return folder;
}

describe.each(runtimes)(
  "functions host on the Deno package $deno with LOCAL_RESPONSE_LOOP=$loop",
  (runtime) => {
    let folder: string;
    let host: Host;

    beforeAll(async () => {
      folder = await writeServer();
      host = await startHost(folder, runtime);
    }, 20_000);

    afterAll(async () => {
      await host.stop();
      await rm(folder, { recursive: true });
    });

    test("a function receives the request's path, body and the environment", async () => {
      const answer = await fetch(`${host.url}/echo/v1/deep?x=1`, { method: "POST", body: "text" });
      expect(await answer.json()).toEqual({ path: "/echo/v1/deep?x=1", body: "text", env: "hello" });
    });

    // Deno reads 64 KiB of a connection at a time.
    test.each([0, 1, 65_000, 65_535, 65_536, 65_537, 131_072, 400_000])(
      "delivers a request body of %i bytes completely",
      async (size) => {
        const body = Array.from({ length: size }, (_, at) => String(at % 10)).join("");
        const answer = await fetch(`${host.url}/echo`, { method: "POST", body });
        expect((await answer.json()).body === body).toBe(true);
      },
    );

    test("answers 500 for an exception in a handler, without the exception's text", async () => {
      const answer = await fetch(`${host.url}/throws`);
      expect(answer.status).toBe(500);
      expect(await answer.text()).not.toContain("inside");
    });

    test("a client disconnecting during a stream cancels the stream and aborts the request's signal", async () => {
      const client = new AbortController();
      const answer = await fetch(`${host.url}/ticks`, { signal: client.signal });
      await answer.body?.getReader().read();
      client.abort();
      await expect.poll(async () => (await fetch(`${host.url}/left`)).json()).toEqual(["signal", "stream"]);
    });

    test("completes work passed to waitUntil before the process ends", async () => {
      const other = await startHost(folder, runtime);
      expect(await (await fetch(`${other.url}/later`)).text()).toBe("accepted");
      expect(await other.stop()).toBe(0);
      expect(other.output()).toContain("background failure");
      expect(other.output()).toContain("background work done");
    });
  },
  30_000,
);

describe("Functions host with Node's server", () => {
  let folder: string;
  let host: Host;

  beforeAll(async () => {
    folder = await writeServer();
    host = await startHost(folder);
  }, 20_000);

  afterAll(async () => {
    await host.stop();
    await rm(folder, { recursive: true });
  });

  test("a disconnecting client aborts the request's signal, but a finished response does not", async () => {
    await (await fetch(`${host.url}/stream/whole`)).text();
    expect(await (await fetch(`${host.url}/left`)).json()).toEqual([]);
    const client = new AbortController();
    const answer = await fetch(`${host.url}/stream`, { signal: client.signal });
    await answer.body?.getReader().read();
    client.abort();
    await expect.poll(async () => (await fetch(`${host.url}/left`)).json()).toEqual(["signal"]);
  });

  test("the request's signal aborts if the client disconnects before the response, even if the request arrived in many packets", async () => {
    const { hostname, port } = new URL(host.url);
    const leave = async ({ size, pauseMs }: { size: number; pauseMs: number }) => {
      const socket = connect(Number(port), hostname).setNoDelay();
      socket.write(`POST /wait HTTP/1.1\r\nhost: x\r\ncontent-length: ${size}\r\n\r\n`);
      await sleep(pauseMs);
      socket.write("x".repeat(size));
      await sleep(200);
      socket.destroy();
    };
    const requests = [
      { size: 20, pauseMs: 0 },
      { size: 20, pauseMs: 50 },
      { size: 20_000, pauseMs: 0 },
      { size: 500_000, pauseMs: 50 },
    ];
    for (const [n, request] of requests.entries()) {
      await leave(request);
      await expect.poll(async () => (await fetch(`${host.url}/wait`)).text()).toBe(String(n + 1));
    }
  });
}, 30_000);
