import { Buffer } from "node:buffer";
import { describe, expect, test } from "vitest";
import { buildPdf } from "./pdf-fixtures.ts";
import { countPdfPages } from "./pdf-pages.ts";

const count = (file: Buffer | string) => countPdfPages(Buffer.from(file as string, "latin1").toString("base64"));

describe("countPdfPages", () => {
  test.for<[string, Parameters<typeof buildPdf>[0]]>([
    ["one page with a table of objects", { pages: 1 }],
    ["a scanned page of 786,000 bytes", { pages: 1, pictureBytes: 786_000 }],
    ["many pages behind a picture of 1.6 MB", { pages: 1_000, pictureBytes: 1_600_000 }],
    ["objects in a compressed stream", { pages: 1, form: "packed" }],
    ["many pages in a compressed stream, behind a picture", { pages: 120, form: "packed", pictureBytes: 1_600_000 }],
    ["a damaged cross-reference", { pages: 7, startOffset: 3 }],
    [
      "a damaged cross-reference, and pages at the end of a large file",
      { pages: 7, startOffset: 9, pictureBytes: 900_000 },
    ],
  ])("counts the pages of a PDF with %s", ([, options]) => {
    expect(count(buildPdf(options))).toBe(options.pages);
  });

  test("reads the page count at the beginning of a linearized PDF only if the file has its stated length", () => {
    const linearized = (length: number, rest: string) =>
      `%PDF-1.4\n1 0 obj\n<< /Linearized 1 /L ${String(length).padStart(6)} /H [ 1 2 ] /O 5 /E 1 /N 12 /T 9 >>\nendobj\n${rest}`;
    const picture = "\xff".repeat(600_000);
    expect(count(linearized(linearized(0, picture).length, picture))).toBe(12);
    expect(count(linearized(1, picture))).toBeUndefined();
  });

  test("counts the pages of the last version of a PDF that was changed", () => {
    const before = buildPdf({ pages: 2 }).toString("latin1");
    const changed = `${before}2 0 obj\n<< /Type /Pages /Kids [ 4 0 R 5 0 R 4 0 R ] /Count 3 >>\nendobj\n`;
    const start = /startxref\n(\d+)/.exec(before)?.[1];
    const table = `xref\n2 1\n${String(before.length).padStart(10, "0")} 00000 n \n`;
    const trailer = `trailer\n<< /Size 6 /Root 1 0 R /Prev ${start} >>\nstartxref\n${changed.length}\n%%EOF\n`;
    expect(count(changed + table + trailer)).toBe(3);
  });

  test("counts the page objects of a small PDF without a page tree", () => {
    expect(count("%PDF-1.4\n1 0 obj <</Type/Page>> endobj 2 0 obj << /Type /Page >> endobj")).toBe(2);
  });

  test.for<[string, Buffer | string]>([
    ["an empty file", ""],
    ["a file that is not a PDF", "A".repeat(4_000)],
    ["a PDF cut off in its first page", buildPdf({ pages: 1, pictureBytes: 900_000 }).subarray(0, 600_000)],
    [
      "a cross-reference that leads to itself",
      `%PDF-1.4\n${"x".repeat(300_000)}\nxref\n0 0\ntrailer << /Prev 300010 >>\nstartxref\n300010\n%%EOF`,
    ],
    ["a page tree of no pages", buildPdf({ pages: 0 })],
  ])("returns undefined for %s", ([, file]) => {
    expect(count(file)).toBeUndefined();
  });

  test("unpacks no more than its limit", () => {
    const pages = 100_001;
    expect(count(buildPdf({ pages, form: "packed", pictureBytes: 300_000 }))).toBeUndefined();
  });
});
