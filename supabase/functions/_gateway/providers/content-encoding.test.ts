import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import {
  brotliCompressSync,
  createBrotliCompress,
  createDeflate,
  createGzip,
  createZstdCompress,
  gzipSync,
} from "node:zlib";
import { afterEach, describe, expect, test } from "vitest";
import { post } from "./exchange.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** Starts a provider that answers with a content coding, and returns its answer once the headers have arrived. */
async function answerOf(coding: string, answer: (response: ServerResponse) => void) {
  const server = createServer((request, response) => {
    response.writeHead(200, { "content-encoding": coding }).flushHeaders();
    request.resume().once("end", () => answer(response));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const exchange = post(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, {}, "{}");
  closers.push(
    exchange.abandon,
    () => server.closeAllConnections(),
    () => server.close(),
  );
  return exchange.answer;
}

type Answer = Awaited<ReturnType<typeof answerOf>>;

/**
 * Reads an answer to its end.
 * @throws Error with the text received so far as its message, if reading fails
 */
async function textOf({ read }: Answer): Promise<string> {
  let text = "";
  try {
    for (let bytes = await read(); bytes; bytes = await read()) text += Buffer.from(bytes).toString();
  } catch {
    throw new Error(text);
  }
  return text;
}

describe("compressed streams", () => {
  test.for([
    ["gzip", createGzip],
    ["deflate", createDeflate],
    ["br", createBrotliCompress],
    ["zstd", createZstdCompress],
  ] as const)(
    "a stream in %s is read event by event, as soon as the provider flushes each event",
    async ([coding, create]) => {
      const encoder = create();
      const { read, pipe } = await answerOf(coding, (response) => encoder.pipe(response));
      const send = (text: string) =>
        new Promise<void>((sent) => encoder.write(text, () => encoder.flush(() => sent())));
      for (const event of ["data: 1\n\n", "data: 2\n\n"]) {
        await send(event);
        expect(Buffer.from((await read()) ?? []).toString()).toBe(event);
      }
      await send("data: 3\n\n");
      const poured: string[] = [];
      const take = (bytes: Uint8Array) => poured.push(Buffer.from(bytes).toString()) < 1;
      expect(await pipe(take)).toBe(true);
      encoder.end("data: 4\n\n");
      expect(await pipe(() => true)).toBe(false);
      expect(poured).toEqual(["data: 3\n\n"]);
    },
  );

  test("a compressed stream delivers its events, then fails if it was cut", async () => {
    const encoder = createGzip();
    const answer = await answerOf("gzip", (response) => {
      encoder.pipe(response);
      encoder.write("data: 1\n\n");
      encoder.flush(() => setTimeout(() => response.destroy(), 30));
    });
    await expect(textOf(answer)).rejects.toThrow("data: 1\n\n");
  });
});

test.for(["gzip, br", "gzip,identity, br", " GZIP ,Br"])("decodes the codings %j in reverse order", async (coding) => {
  const answer = await answerOf(coding, (response) => response.end(brotliCompressSync(gzipSync("whole"))));
  expect(await textOf(answer)).toBe("whole");
});

test.for(["", "identity", "Identity", "identity, identity"])(
  "leaves a body with the content coding %j unchanged",
  async (coding) => {
    expect(await textOf(await answerOf(coding, (response) => response.end("whole")))).toBe("whole");
  },
);

test.for(["compress", "utf-8", "constructor", "gzip, gzip, gzip", "gzip, nothing"])(
  "refuses to read a body with the content coding %j",
  async (coding) => {
    const answer = await answerOf(coding, (response) => response.end(gzipSync("whole")));
    expect(answer.status).toBe(200);
    await expect(answer.read()).rejects.toThrow("unknown content coding");
    await expect(answer.pipe(() => true)).rejects.toThrow("unknown content coding");
  },
);

test("accepts an empty compressed body", async () => {
  expect(await (await answerOf("gzip", (response) => response.end())).read()).toBeUndefined();
});

test("buffers only a small part of a body that decodes to far more", async () => {
  const size = 256 * 1024 * 1024;
  const bomb = gzipSync(Buffer.alloc(size));
  const { read } = await answerOf("gzip", (response) => response.end(bomb));
  await read();
  const { arrayBuffers } = process.memoryUsage();
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(process.memoryUsage().arrayBuffers - arrayBuffers).toBeLessThan(8 * 1024 * 1024);
});
