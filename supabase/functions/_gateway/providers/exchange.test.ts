import { execFile } from "node:child_process";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from "node:net";
import path from "node:path";
import { promisify } from "node:util";
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { type DenoPackage, denoCommand } from "@gatehousehq/local-stack/services/functions/deno-arguments";
import { afterEach, describe, expect, test } from "vitest";
import { choosePost } from "./exchange.ts";
import { postByFetch } from "./fetch-exchange.ts";

const root = path.resolve(import.meta.dirname, "../../../..");
/** The user agents of hosted Supabase's runtime and of this project's own Deno. */
const hosted = "Deno/2.1.4 (variant; SupabaseEdgeRuntime/1.74.0)";
const local = "Deno/2.9.6";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

async function addressOf(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** Starts a provider that runs `act` on each connection once the request has arrived. */
async function provider(act: (socket: Socket) => void): Promise<string> {
  const server = createTcpServer((socket) => {
    closers.push(() => socket.destroy());
    socket.on("error", () => {}).once("data", () => act(socket));
  });
  return addressOf(server);
}

/** Starts a provider with the given handler. */
async function httpProvider(answer: RequestListener, onConnection: () => void): Promise<string> {
  const server = createServer(answer).on("connection", onConnection);
  closers.push(() => server.closeAllConnections());
  return addressOf(server);
}

/**
 * Makes calls in Deno, one after another. Returns the result of each call: the answer's status, the beginning of its
 * text and how it ended, or the error if the call failed. A call is abandoned if its headers haven't arrived after two
 * seconds, or if its answer hasn't ended within `abandonMs` after them.
 */
async function postInDeno(deno: DenoPackage, url: string, calls: number, abandonMs = 2_000): Promise<string[]> {
  const program = `
    const { post } = await import(${JSON.stringify(path.join(import.meta.dirname, "exchange.ts"))});
    for (let call = 0; call < ${calls}; call++) {
      let said = "";
      let timer;
      try {
        const { answer, abandon } = post(${JSON.stringify(url)}, { "accept-encoding": "identity" }, "{}");
        timer = setTimeout(abandon, 2_000);
        const { status, read } = await answer;
        clearTimeout(timer);
        timer = setTimeout(abandon, ${abandonMs});
        said = status + ":";
        for (let bytes = await read(); bytes; bytes = await read()) said = (said + new TextDecoder().decode(bytes)).slice(0, 20);
      } catch (error) {
        said += "!" + (error.constructor.name === "NotConnected" ? "unconnected" : "");
      }
      clearTimeout(timer);
      console.log(said);
    }
    Deno.exit(0);`;
  const { command, args } = denoCommand(root, deno);
  const { stdout } = await promisify(execFile)(command, [...args, "eval", program], { cwd: root, timeout: 20_000 });
  return stdout.trim().split("\n");
}

test("uses fetch in a runtime whose Node HTTP client is unreliable", () => {
  for (const old of [hosted, "Deno/2.5.6", "Deno/1.45.2", "", "Bun/1.3"]) expect(choosePost(old)).toBe(postByFetch);
  for (const good of [local, "Deno/2.10.0", "Deno/3.0.0", "Node.js/24"]) expect(choosePost(good)).not.toBe(postByFetch);
});

const runtimes: [string, DenoPackage][] = [
  ["fetch in hosted Supabase's Deno", "deno-hosted"],
  ["Node's client", "deno"],
];
const testedRuntimes = runtimes.filter(([, deno]) => deno === (process.env.LOCAL_DENO ?? "deno"));

describe.each(testedRuntimes)("Exchange with %s", (_, deno) => {
  test("sends a request only once, even if its reused connection is reset", async () => {
    const asked: number[] = [];
    let connections = 0;
    const url = await httpProvider(
      (request, response) => {
        asked.push(connections);
        request.resume().once("end", () => {
          if (asked.length === 2) request.socket.resetAndDestroy();
          else response.end(`answer ${asked.length}`);
        });
      },
      () => {
        connections += 1;
      },
    );
    expect(await postInDeno(deno, url, 3)).toEqual(["200:answer 1", "!", "200:answer 3"]);
    // The second request failed on the reused first connection. The third request opened a new connection.
    expect(asked).toEqual([1, 1, 2]);
  });

  test.each<[string, string, (socket: Socket) => void]>([
    ["closes without an answer", "!", (socket) => socket.end()],
    ["cuts off a body of known length", "200:half!", (socket) => socket.end(head("content-length: 100", "half"))],
    [
      "cuts off a chunked body",
      "200:half!",
      (socket) => socket.end(head("transfer-encoding: chunked", "4\r\nhalf\r\n")),
    ],
    ["answers until it closes", "200:whole", (socket) => socket.end(head("connection: close", "whole"))],
    ["never answers", "!", () => {}],
    ["stalls in the middle of a body", "200:half!", (socket) => socket.write(head("content-length: 100", "half"))],
    [
      "answers with a redirect",
      "307:",
      (socket) => socket.end("HTTP/1.1 307 X\r\nlocation: /\r\ncontent-length: 0\r\n\r\n"),
    ],
    ["answers without content", "204:", (socket) => socket.end("HTTP/1.1 204 No Content\r\n\r\n")],
  ])("handles a provider that %s", async (_what, said, act) => {
    expect(await postInDeno(deno, await provider(act), 1, 300)).toEqual([said]);
  });

  test.each<[string, (text: string) => Buffer]>([
    ["gzip", gzipSync],
    ["X-GZIP", gzipSync],
    ["deflate", deflateSync],
    ["deflate", deflateRawSync],
    ["br", brotliCompressSync],
    ["zstd", zstdCompressSync],
    ["identity, gzip", gzipSync],
  ])("decodes an answer with content coding %s if the runtime can", async (coding, encode) => {
    const url = await httpProvider(
      (_, response) => response.writeHead(200, { "content-encoding": coding }).end(encode("whole")),
      () => {},
    );
    // Deno 2.1's node:zlib has no zstd.
    const answer = coding === "zstd" && deno === "deno-hosted" ? "200:!" : "200:whole";
    expect(await postInDeno(deno, url, 2)).toEqual([answer, answer]);
  });

  test("treats an answer with a missing end or a broken encoding as cut off", async () => {
    const whole = gzipSync("whole");
    for (const body of [whole.subarray(0, -9), Buffer.from("plain")]) {
      const url = await httpProvider(
        (_, response) => response.writeHead(200, { "content-encoding": "gzip" }).end(body),
        () => {},
      );
      expect(await postInDeno(deno, url, 1)).toEqual([expect.stringMatching(/^200:(?:whole)?!$/)]);
    }
  });

  test("an abandoned answer counts as cut off, and the connection to the provider is closed", async () => {
    let left = () => {};
    const gone = new Promise<void>((resolve) => {
      left = resolve;
    });
    const url = await provider((socket) => {
      socket.on("close", left).write(head("transfer-encoding: chunked", ""));
      const piece = `8000\r\n${"x".repeat(0x8000)}\r\n`;
      // Stops on an error, because every further write to a closed connection fails immediately.
      const writeOn = (error?: Error | null) => void (error || socket.write(piece, writeOn));
      writeOn();
    });
    for (const outcome of await postInDeno(deno, url, 3, 100)) expect(outcome).toBe("200:xxxxxxxxxxxxxxxx!");
    await gone;
  });

  test("a failed connection or TLS handshake is reported as NotConnected", async () => {
    const refusing = await provider(() => {});
    closers.pop()?.();
    const plain = await provider((socket) => socket.end("HTTP/1.1 400 X\r\n\r\n"));
    const closing = await provider((socket) => socket.destroy());
    for (const url of [refusing, plain.replace("http:", "https:"), closing.replace("http:", "https:")])
      expect(await postInDeno(deno, url, 1)).toEqual(["!unconnected"]);
  });
});

function head(header: string, body: string): string {
  return `HTTP/1.1 200 OK\r\n${header}\r\n\r\n${body}`;
}
