import { Buffer } from "node:buffer";
import { deflateSync } from "node:zlib";
import { expect, test } from "vitest";
import { cpuMs, measureSlowness } from "../../../../scripts/test/processor-time.ts";
import { parseExactJson } from "../../_shared/exact-json.ts";
import { readChat } from "../chat/request.ts";
import { embeddingsSurface } from "../embeddings/surface.ts";
import { readCosts } from "../imports/costs.ts";
import { readMessages } from "../messages/request.ts";
import { readResponses } from "../responses/request.ts";
import { bodyLimits } from "./body.ts";
import { GatewayError } from "./errors.ts";
import { parseJson } from "./parse-json.ts";

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
/** A PDF of 2 KB whose cross-reference has 2 MiB, and whose root needs all its rows. */
function packedPdf(): string {
  const rows = deflateSync(Buffer.alloc(2 * mebibyte, 2)).toString("latin1");
  const predictor = "/Filter /FlateDecode /DecodeParms << /Predictor 12 /Columns 4 >>";
  const dictionary = `<< /W [1 2 1] /Size 400000 /Root 399999 0 R ${predictor} /Length ${rows.length} >>`;
  return `%PDF-1.5\n1 0 obj\n${dictionary}\nstream\n${rows}\nendstream\nendobj\nstartxref\n9\n%%EOF`;
}
/** A PDF of 2 KB whose catalog is in an object stream with a header of 1.5 MB. */
function headedPdf(): string {
  const objects = deflateSync("1 0 ".repeat(375_000)).toString("latin1");
  const head = "%PDF-1.5\n";
  const stream = `5 0 obj\n<< /First 1500000 /Filter /FlateDecode /Length ${objects.length} >>\nstream\n${objects}\nendstream\nendobj\n`;
  const rows = Buffer.from([...Array(5).fill([2, 5, 0]).flat(), 1, head.length, 0]).toString("latin1");
  const section = `6 0 obj\n<< /W [1 1 1] /Size 6 /Root 2 0 R /Length 18 >>\nstream\n${rows}\nendstream\nendobj\n`;
  return `${head}${stream}${section}startxref\n${head.length + stream.length}\n%%EOF`;
}
/** Makes documents of the Messages API, of chats or of responses. */
const documents = (list: string, pdf: string, count: number) => {
  const data = Buffer.from(pdf, "latin1").toString("base64");
  const blocks = {
    documents: `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"${data}"}},`,
    messages: `{"type":"file","file":{"file_data":"data:application/pdf;base64,${data}"}},`,
    input: `{"type":"input_file","file_data":"data:application/pdf;base64,${data}"},`,
  };
  const block = blocks[list as keyof typeof blocks] ?? blocks.documents;
  const text = list === "input" ? "input_text" : "text";
  const name = list === "documents" ? "messages" : list;
  return `${head}"${name}":[{"role":"user","content":[${block.repeat(count)}{"type":"${text}","text":"a"}]}]}`;
};
const startless = "startxref 1 ".repeat(100);
const bodies: Record<string, (list: string) => string> = {
  "a long text": (list) => `${head}"${list}":[{"role":"user","content":"${fill("hello ", 7.9 * mebibyte)}"}]}`,
  "packed PDFs in messages": () => documents("documents", packedPdf(), 300),
  "packed PDFs": (list) => documents(list, packedPdf(), 40),
  "PDFs with long headers of objects": () => documents("documents", headedPdf(), 300),
  "tiny PDFs in messages": () => documents("documents", "%PDF-", 18_000),
  "tiny PDFs": (list) => documents(list, "%PDF-", 18_000),
  "PDFs with many dictionaries": () => documents("documents", `%PDF-${"<<".repeat(500)}${startless}`, 1_000),
  "PDFs with many page trees": () => documents("documents", `%PDF-${"/Type /Pages /Kids [ endobj".repeat(5_000)}`, 40),
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

/** Returns the processor time of `work`, in milliseconds. A refusal of the gateway counts as an ending. */
function readMs(work: () => void): number {
  return cpuMs(() => {
    try {
      work();
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
    }
  });
}

// Parsing and validation run in two turns of the event loop (serve-surface.ts).
test.for(Object.entries(bodies))("no path holds the event loop for more than 25 ms a MiB with %s", ([, make]) => {
  for (const [path, { read, list, limitBytes, options }] of Object.entries(paths)) {
    const bytes = new TextEncoder().encode(make(list)) as Uint8Array<ArrayBuffer>;
    if (bytes.byteLength > limitBytes) continue;
    const limitMs = maxMsPerMebibyte * Math.max(1, bytes.byteLength / mebibyte);
    let least = Number.POSITIVE_INFINITY;
    // The first runs also compile the code, and other processes slow some of the others.
    for (let run = 0; run < 20 && least > limitMs; run++) {
      let value: unknown;
      const parsing = readMs(() => {
        value = parseJson(request, bytes, options);
      });
      const reading = value === undefined ? 0 : readMs(() => read(value, bytes.byteLength, new Headers()));
      const ms = Math.max(parsing, reading);
      least = Math.min(least, ms > limitMs ? ms / measureSlowness() : ms);
    }
    expect(least, `${path}: ${least} ms of ${limitMs}`).toBeLessThanOrEqual(limitMs);
  }
});
