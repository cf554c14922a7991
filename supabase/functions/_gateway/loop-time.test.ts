import { expect, test } from "vitest";
import { parseExactJson } from "../_shared/exact-json.ts";
import { readChat } from "./chat/request.ts";
import { embeddingsSurface } from "./embeddings/surface.ts";
import { bodyLimits, parseJson } from "./http/body.ts";
import { GatewayError } from "./http/errors.ts";
import { readCosts } from "./imports/costs.ts";
import { readMessages } from "./messages/request.ts";
import { readResponses } from "./responses/request.ts";

const mebibyte = 1024 * 1024;
/** How long a body may hold the event loop at a time, in milliseconds of processor time for each MiB. */
const maxMsPerMebibyte = 25;

type Read = (value: unknown, bytes: number, headers: Headers) => unknown;
const paths: Record<
  string,
  { read: Read; list: string; limitBytes: number; options?: Parameters<typeof parseJson>[2] }
> = {
  chat: { read: readChat, list: "messages", limitBytes: bodyLimits.text },
  responses: { read: readResponses, list: "input", limitBytes: bodyLimits.text },
  messages: { read: readMessages, list: "messages", limitBytes: bodyLimits.text },
  embeddings: {
    read: embeddingsSurface.read,
    list: "input",
    limitBytes: bodyLimits.embeddings,
    options: { maxNumbers: embeddingsSurface.maxNumbers },
  },
  imports: { read: readCosts, list: "records", limitBytes: bodyLimits.batch, options: { parse: parseExactJson } },
};
const head = '{"model":"m","max_tokens":5,';
const fill = (text: string, bytes: number) => text.repeat(Math.floor(bytes / text.length));
const members = (count: number) => Array.from({ length: count }, (_, n) => `"k${n}":1`).join();
const bodies: Record<string, (list: string) => string> = {
  "a long text": (list) => `${head}"${list}":[{"role":"user","content":"${fill("hello ", 7.9 * mebibyte)}"}]}`,
  escapes: (list) => `${head}"${list}":[{"role":"user","content":"${fill("\\\\\\n", 7.9 * mebibyte)}"}]}`,
  spaces: (list) => `${head}${fill(" ", 7.9 * mebibyte)}"${list}":[]}`,
  digits: (list) => `${head}"${list}":[${fill("1", 7.9 * mebibyte)}]}`,
  "an image": (list) =>
    `${head}"${list}":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,${fill("AAAA", 7.9 * mebibyte)}"}}]}]}`,
  "as many parts as are allowed": (list) =>
    `${head}"${list}":[{"role":"user","content":[${fill('{"type":"text","text":"a"},', 9_900 * 27)}{"type":"text","text":"a"}]}]}`,
  "empty objects": (list) => `${head}"${list}":[${fill("{},", 44_900)}{}]}`,
  "too many empty objects": (list) => `${head}"${list}":[${fill("{},", 7.9 * mebibyte)}{}]}`,
  numbers: (list) => `${head}"${list}":[${fill("0,", 59_000)}0]}`,
  "fractions in a schema": (list) =>
    `${head}"${list}":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"a":[${fill("1.0,", 118_000)}1.0]}}}]}`,
  "nested lists": (list) => `${head}"${list}":[${fill(`${"[".repeat(60)}${"]".repeat(60)},`, 59_000)}[]]}`,
  "deeply nested lists": (list) => `${head}"${list}":${"[".repeat(4 * mebibyte)}`,
  "as many members as are allowed": (list) => `${head}"${list}":[{"role":"user","content":"a"}],${members(4_900)}}`,
  "too many members": (list) => `${head}"${list}":[{"role":"user","content":"a"}],${members(200_000)}}`,
  "duplicate names": (list) => `${head}"${list}":[],${fill('"a":1.0,', 4 * mebibyte)}"a":1.0}`,
  "tokens in the largest body of embeddings": (list) => `${head}"${list}":[${fill("15339,", 1_048_500)}1]}`,
  "as many tokens as are allowed": (list) => `${head}"${list}":[${fill("1539,", 199_000 * 5)}1]}`,
  "lists of tokens and a fraction": (list) =>
    `${head}"dimensions":1.0,"${list}":[${fill(`[${fill("1539,", 5_000)}1],`, 199_000 * 5)}[1]]}`,
  "negative tokens": (list) => `${head}"${list}":[${fill("-1,", 29_000 * 3)}1]}`,
  "texts for embeddings": (list) => `${head}"${list}":[${fill('"a",', 2_000 * 4)}"a"]}`,
};
const request = new Request("http://gateway/", { headers: { "content-type": "application/json" } });

function cpuMs(work: () => void): number {
  const started = process.threadCpuUsage();
  try {
    work();
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
  }
  const { user, system } = process.threadCpuUsage(started);
  return (user + system) / 1_000;
}

// Parsing and validation run in two turns of the event loop (serve-surface.ts).
test.for(Object.entries(bodies))("no path holds the event loop for more than 25 ms a MiB with %s", ([, make]) => {
  for (const [path, { read, list, limitBytes, options }] of Object.entries(paths)) {
    const bytes = new TextEncoder().encode(make(list)) as Uint8Array<ArrayBuffer>;
    if (bytes.byteLength > limitBytes) continue;
    const limitMs = maxMsPerMebibyte * Math.max(1, bytes.byteLength / mebibyte);
    let least = Number.POSITIVE_INFINITY;
    // The first runs also compile the code.
    for (let run = 0; run < 5 && least > limitMs; run++) {
      let value: unknown;
      const parsing = cpuMs(() => {
        value = parseJson(request, bytes, options);
      });
      const reading = value === undefined ? 0 : cpuMs(() => read(value, bytes.byteLength, new Headers()));
      least = Math.min(least, Math.max(parsing, reading));
    }
    expect(least, `${path}: ${least} ms of ${limitMs}`).toBeLessThanOrEqual(limitMs);
  }
});
