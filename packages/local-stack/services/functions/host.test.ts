import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { freePort } from "../../ports.ts";
import { type DenoPackage, denoArguments, denoCommand } from "./deno-arguments.ts";

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

const sources = {
  echo: `Deno.serve(async (request) => {
    const { pathname, search } = new URL(request.url);
    return Response.json({ path: pathname + search, body: await request.text(), env: Deno.env.get("GREETING") });
  });`,
  broken: "import { nothing } from './missing.ts'; Deno.serve(() => new Response(nothing));",
  silent: "export const idle = true;",
  throws: "Deno.serve(() => { throw new Error('inside'); });",
  _shared: "Deno.serve(() => new Response('never'));",
  wait: `let left = 0;
  Deno.serve(async (request) => {
    if (request.method === "GET") return new Response(String(left));
    await request.arrayBuffer();
    await new Promise((resolve) => request.signal.addEventListener("abort", resolve));
    left += 1;
    return new Response();
  });`,
  stream: `let left = "none";
  Deno.serve({}, (request) => {
    if (request.url.endsWith("/left")) return new Response(left);
    request.signal.addEventListener("abort", () => { left = "signal"; });
    const chunks = new ReadableStream({
      async start(controller) {
        controller.enqueue(new TextEncoder().encode("first"));
        await request.text();
        if (request.url.endsWith("/whole")) controller.close();
      },
    });
    return new Response(chunks);
  });`,
  ticks: `let left = [];
  Deno.serve((request) => {
    if (request.url.endsWith("/left")) return Response.json(left.sort());
    left = [];
    request.signal.addEventListener("abort", () => left.push("signal"));
    let timer;
    const chunks = new ReadableStream({
      start(controller) {
        timer = setInterval(() => controller.enqueue(new TextEncoder().encode("tick")), 20);
      },
      cancel() {
        clearInterval(timer);
        left.push("stream");
      },
    });
    return new Response(chunks);
  });`,
  later: `Deno.serve(() => {
    EdgeRuntime.waitUntil(Promise.reject(new Error("background failure")));
    EdgeRuntime.waitUntil(new Promise((resolve) => setTimeout(() => { console.log("background work done"); resolve(); }, 400)));
    return new Response("accepted");
  });`,
};

type Host = { url: string; child: ChildProcess; output: () => string; stop: () => Promise<number | null> };

async function startHost(
  folder: string,
  { deno, loop }: Runtime = { deno: "deno" },
  env: Record<string, string> = {},
): Promise<Host> {
  const port = await freePort();
  const { command, args } = denoCommand(root, deno);
  const child = spawn(command, [...args, ...denoArguments(root, { folders: [folder] })], {
    cwd: root,
    env: {
      ...process.env,
      PORT: String(port),
      FUNCTIONS_DIR: folder,
      GREETING: "hello",
      ...(loop ? { LOCAL_RESPONSE_LOOP: loop } : {}),
      ...env,
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

async function writeFunctions(folder: string, functions: Record<string, string>): Promise<void> {
  for (const [name, source] of Object.entries(functions)) {
    await mkdir(path.join(folder, name), { recursive: true });
    await writeFile(path.join(folder, name, "index.ts"), source);
  }
}

describe.each(runtimes)(
  "functions host on the Deno package $deno with LOCAL_RESPONSE_LOOP=$loop",
  (runtime) => {
    let folder: string;
    let host: Host;

    beforeAll(async () => {
      folder = await mkdtemp(path.join(tmpdir(), "functions-"));
      await writeFunctions(folder, sources);
      host = await startHost(folder, runtime);
    }, 20_000);

    afterAll(async () => {
      await host.stop();
      await rm(folder, { recursive: true });
    });

    test("a function receives its own name in the request path, the body and the environment", async () => {
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

    test("answers 503 for a function that cannot be loaded, names its file, and keeps serving other functions", async () => {
      const answer = await fetch(`${host.url}/broken`);
      expect(answer.status).toBe(503);
      const body = await answer.json();
      expect(body).toMatchObject({ code: "BOOT_ERROR" });
      expect(body.message).toContain("broken/index.ts");
      expect((await fetch(`${host.url}/silent`)).status).toBe(503);
      const health = await fetch(`${host.url}/healthz`);
      expect(health.status).toBe(503);
      expect(await health.json()).toMatchObject({
        status: "failed",
        functions: { broken: "failed", echo: "ready", silent: "failed" },
      });
    });

    test.each(["/_shared", "/unknown", "/"])("does not serve %s as a function", async (url) => {
      const answer = await fetch(host.url + url);
      expect(answer.status).toBe(404);
      expect(await answer.json()).toMatchObject({ code: "NOT_FOUND" });
    });

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
      await expect.poll(async () => (await fetch(`${host.url}/ticks/left`)).json()).toEqual(["signal", "stream"]);
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
    folder = await mkdtemp(path.join(tmpdir(), "functions-"));
    await writeFunctions(folder, sources);
    host = await startHost(folder);
  }, 20_000);

  afterAll(async () => {
    await host.stop();
    await rm(folder, { recursive: true });
  });

  test("a disconnecting client aborts the request's signal, but a finished response does not", async () => {
    await (await fetch(`${host.url}/stream/whole`)).text();
    expect(await (await fetch(`${host.url}/stream/left`)).text()).toBe("none");
    const client = new AbortController();
    const answer = await fetch(`${host.url}/stream`, { signal: client.signal });
    await answer.body?.getReader().read();
    client.abort();
    await expect.poll(async () => (await fetch(`${host.url}/stream/left`)).text()).toBe("signal");
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

  test("with RELOAD set, serves a changed function, and responds with the file name of a broken function until it is fixed", async () => {
    const changing = await mkdtemp(path.join(tmpdir(), "functions-"));
    const greet = (text: string) => ({ greet: `Deno.serve(() => new Response(${JSON.stringify(text)}));` });
    await writeFunctions(changing, greet("one"));
    const other = await startHost(changing, { deno: "deno" }, { RELOAD: "1" });
    const ask = () =>
      fetch(`${other.url}/greet`).then(
        (answer) => answer.text(),
        () => "",
      );
    try {
      await expect.poll(ask, { timeout: 5_000 }).toBe("one");
      await writeFunctions(changing, { ...greet("two"), added: sources.echo });
      await expect.poll(ask, { timeout: 5_000 }).toBe("two");
      expect((await fetch(`${other.url}/added`)).status).toBe(200);
      await writeFunctions(changing, { greet: "this is no code" });
      await expect.poll(ask, { timeout: 5_000 }).toContain("greet/index.ts");
      expect((await fetch(`${other.url}/healthz`)).status).toBe(200);
      await writeFunctions(changing, greet("three"));
      await expect.poll(ask, { timeout: 5_000 }).toBe("three");
    } finally {
      expect(await other.stop()).toBe(0);
      await rm(changing, { recursive: true });
    }
  });
}, 30_000);
