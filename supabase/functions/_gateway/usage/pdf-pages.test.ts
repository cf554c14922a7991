import { Buffer } from "node:buffer";
import { describe, expect, test } from "vitest";
import { buildPdf } from "./pdf-fixtures.ts";
import { countPdfPages } from "./pdf-pages.ts";

const budget = () => ({ left: 4 * 1024 * 1024 });
const base64 = (file: Buffer | string) => Buffer.from(file as string, "latin1").toString("base64");
const count = (file: Buffer | string) => countPdfPages(base64(file), budget());
/** A PDF whose first and last bytes show nodes of its page tree, but not the root. */
const buildTree = (prefix = "") =>
  buildPdf({ pages: 6_000, pagesPerNode: 10, pictureBytes: 150_000, prefix }).toString("latin1");
const tree = buildTree();
const linearized = (bytes: number) => buildTree(`%PDF-1.4\n9000 0 obj\n<< /Linearized 1 /L ${bytes} /N 1 >>\nendobj\n`);

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

  test.for<[string, string]>([
    ["bytes before it", `junk\n${tree}`],
    ["4 KB after it", tree + " ".repeat(4_096)],
    ["bytes before it that its offsets include", buildTree("junk\n")],
    ["a linearization dictionary of one page", linearized(linearized(600_000).length)],
  ])("counts the pages of a PDF in nodes of ten, with %s", ([, file]) => {
    expect(count(file)).toBe(6_000);
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
    [
      "a page tree whose count is below its pages",
      buildPdf({ pages: 600 }).toString("latin1").replace("/Count 600", "/Count 1  "),
    ],
    ["a node without its root", "%PDF-1.4\n1 0 obj << /Type /Pages /Parent 9 0 R /Kids [ 2 0 R ] /Count 1 >> endobj"],
    ["a page next to compressed objects", "%PDF-1.5\n1 0 obj <</Type/Page>> endobj 2 0 obj << /Type /ObjStm >> endobj"],
    ["a large file that shows only nodes", tree.replace(/startxref\n\d+/, "startxref\n1")],
  ])("returns undefined for %s", ([, file]) => {
    expect(count(file)).toBeUndefined();
  });

  test("stops at the limit of all files of a request", () => {
    const shared = budget();
    const files = Array.from({ length: 200 }, () => countPdfPages(base64(tree), shared));
    expect([files[0], files.at(-1)]).toEqual([6_000, undefined]);
    expect(shared.left).toBeGreaterThanOrEqual(0);
  });

  test("unpacks no more than its limit", () => {
    const pages = 100_001;
    expect(count(buildPdf({ pages, form: "packed", pictureBytes: 300_000 }))).toBeUndefined();
  });
});
