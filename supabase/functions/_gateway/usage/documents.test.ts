import { Buffer } from "node:buffer";
import { describe, expect, test } from "vitest";
import { readChat } from "../chat/request.ts";
import { readMessages } from "../messages/request.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";
import { readResponses } from "../responses/request.ts";
import { estimateDocumentTokens } from "./documents.ts";
import { buildPdf } from "./pdf-fixtures.ts";

const scan = buildPdf({ pages: 1, pictureBytes: 786_000 }).toString("base64");
const dataUrl = (type: string, base64: string) => `data:${type};base64,${base64}`;

describe("documentTokens", () => {
  // Tokens of measured pages: https://huggingface.co/datasets/JOHNISKING/pdf-token-cost
  test.for<[string, number, number]>([
    ["a scanned page", 1, 1_600],
    ["a page of text", 1, 2_347],
    ["a page with a table", 1, 2_481],
    ["five pages of text", 5, 11_631],
    ["ten pages of text", 10, 23_236],
  ])("estimates %s to within a factor of two, and reserves at least its tokens", ([, pages, tokens]) => {
    const { estimate, maximum, isMeasured } = estimateDocumentTokens([buildPdf({ pages }).toString("base64")]);
    expect(isMeasured).toBe(true);
    expect(estimate / tokens).toBeGreaterThan(0.5);
    expect(estimate / tokens).toBeLessThan(2);
    expect(maximum).toBeGreaterThanOrEqual(tokens);
  });

  test("counts the same pages in a data URL, and in base64 with line breaks", () => {
    const pdf = buildPdf({ pages: 3 }).toString("base64");
    const counted = { estimate: 6_000, maximum: 23_352, isMeasured: true };
    for (const data of [pdf, dataUrl("application/pdf", pdf), pdf.replace(/.{76}/g, "$&\r\n")]) {
      expect(estimateDocumentTokens([data])).toEqual(counted);
    }
  });

  test("takes a PDF whose pages can't be counted as the most pages of its size, and marks it", () => {
    const broken = (bytes: number) => Buffer.concat([Buffer.from("%PDF-1.7\n"), Buffer.alloc(bytes - 9, 0xff)]);
    const of = (bytes: number) => estimateDocumentTokens([broken(bytes).toString("base64")]);
    expect(of(1_200)).toEqual({ estimate: 2_000, maximum: 6 * 7_784, isMeasured: false });
    expect(of(786_000)).toEqual({ estimate: 16 * 2_000, maximum: 1_000 * 7_784, isMeasured: false });
  });

  test("counts a text file by its text, and any other file by its bytes", () => {
    const text = Buffer.from("x".repeat(1_200)).toString("base64");
    expect(estimateDocumentTokens([dataUrl("text/plain", text)])).toEqual({
      estimate: 300,
      maximum: 400,
      isMeasured: true,
    });
    expect(estimateDocumentTokens([text])).toEqual({ estimate: 300, maximum: 400, isMeasured: true });
    expect(estimateDocumentTokens(["data:text/plain,hello%20you"])).toEqual({
      estimate: 3,
      maximum: 4,
      isMeasured: true,
    });
    const workbook = Buffer.concat([Buffer.from("PK\x03\x04\x14\0"), Buffer.alloc(1_194)]).toString("base64");
    expect(estimateDocumentTokens([workbook])).toEqual({ estimate: 300, maximum: 1_200, isMeasured: false });
  });

  test("adds up the documents of a request", () => {
    const pdf = buildPdf({ pages: 2 }).toString("base64");
    expect(estimateDocumentTokens([pdf, pdf])).toEqual({ estimate: 8_000, maximum: 31_136, isMeasured: true });
    expect(estimateDocumentTokens([])).toEqual({ estimate: 0, maximum: 0, isMeasured: true });
  });
});

const text = "Summarize the document.";
const messages = (block: object) => ({
  model: "m",
  max_tokens: 1_000,
  messages: [{ role: "user", content: [{ type: "text", text }, block] }],
});
const document = { type: "document", source: { type: "base64", media_type: "application/pdf", data: scan } };
const chatFile = { type: "file", file: { filename: "a.pdf", file_data: dataUrl("application/pdf", scan) } };
const inputFile = { type: "input_file", filename: "a.pdf", file_data: dataUrl("application/pdf", scan) };
const fetched = { type: "web_fetch_result", url: "https://a.test/a.pdf", content: document };

const readAsMessages = (body: object, bytes: number) => readMessages(body, bytes, new Headers());

// Documents of each API: `DocumentBlockParam` and `ToolResultBlockParam` of github.com/anthropics/anthropic-sdk-typescript,
// and https://developers.openai.com/api/docs/guides/file-inputs
describe.for<[string, (body: object, bytes: number) => ParsedRequest, object]>([
  ["a Messages API document", readAsMessages, messages(document)],
  [
    "a document in a Messages API tool result",
    readAsMessages,
    messages({ type: "tool_result", tool_use_id: "t", content: [document] }),
  ],
  [
    "a document that a web fetch returned",
    readAsMessages,
    messages({ type: "web_fetch_tool_result", tool_use_id: "t", content: fetched }),
  ],
  [
    "a chat's file",
    readChat,
    { model: "m", messages: [{ role: "user", content: [{ type: "text", text }, chatFile] }] },
  ],
  [
    "a file in a chat's tool result",
    readChat,
    { model: "m", messages: [{ role: "tool", tool_call_id: "c", content: [chatFile] }] },
  ],
  [
    "a response's file",
    readResponses,
    { model: "m", input: [{ role: "user", content: [{ type: "input_text", text }, inputFile] }] },
  ],
  [
    "a file in a response's tool result",
    readResponses,
    { model: "m", input: [{ type: "function_call_output", call_id: "c", output: [inputFile] }] },
  ],
])("the tokens of %s", ([, read, body]) => {
  const bytes = JSON.stringify(body).length;
  const { inputEstimate, inputBytes, hasUnmeasuredInput } = read(body, bytes);

  test("are estimated to within a factor of two of a scanned page", () => {
    expect(inputEstimate.input_tokens).toBeGreaterThan(800);
    expect(inputEstimate.input_tokens).toBeLessThan(3_200);
    expect(hasUnmeasuredInput).toBe(false);
  });

  test("are reserved as those of a page, not of the file's bytes", () => {
    expect(inputBytes / 3).toBeGreaterThan(7_784);
    expect(inputBytes / 3).toBeLessThan(8_000);
  });
});
