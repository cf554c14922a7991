import { expect, test } from "vitest";
import { readDocument, sanitizeFileName } from "./invoice-document.ts";

test.for([
  ["bill.pdf", "bill.pdf"],
  ["Rechnung Nº 7 – März.PDF", "Rechnung Nº 7 – März.pdf"],
  ["../../etc/passwd", "passwd.pdf"],
  ["C:\\Users\\a\\bill.pdf", "bill.pdf"],
  ["page.html", "page.html.pdf"],
  ['a"b\r\nSet-Cookie: x=1.pdf', "a-bSet-Cookie- x=1.pdf"],
  ["invoice\u202Efdp.exe", "invoicefdp.exe.pdf"],
  ["\ud800.pdf", "invoice.pdf"],
  ["..pdf", "invoice.pdf"],
  ["", "invoice.pdf"],
  [`${"x".repeat(124)}.pdf`, `${"x".repeat(124)}.pdf`],
  [`${"x".repeat(125)}.pdf`, `${"x".repeat(124)}.pdf`],
  [`${"😀".repeat(200)}.pdf`, `${"😀".repeat(124)}.pdf`],
])("the file name %j is stored as %j", ([name = "", stored]) => {
  expect(sanitizeFileName(name)).toBe(stored);
});

const maxBytes = 5 * 1024 * 1024;
const padded = (start: string, size = start.length) => `${start}${" ".repeat(size - start.length)}`;

test.for([
  ["of 5 MiB", padded("%PDF-1.7", maxBytes), { fileName: "a.pdf" }],
  ["of one byte more than 5 MiB", padded("%PDF-1.7", maxBytes + 1), { error: "The file is larger than 5 MiB" }],
  ["with HTML", "<!doctype html><script>alert(1)</script>", { error: "The file isn’t a PDF" }],
  ["with HTML before a PDF", "<script>alert(1)</script>%PDF-1.7", { error: "The file isn’t a PDF" }],
  ["of four bytes", "%PDF", { error: "The file isn’t a PDF" }],
  ["without content", "", { error: "The file is empty" }],
] as const)("a document %s is accepted or refused by its size and first bytes", async ([, content, read]) => {
  const form = new FormData();
  form.set("document", new File([content], "a.pdf", { type: "application/pdf" }));
  expect(await readDocument(form)).toMatchObject(read);
});

test("a form for which no file was chosen has no document", async () => {
  const form = new FormData();
  expect(await readDocument(form)).toBeNull();
  form.set("document", new File([], ""));
  expect(await readDocument(form)).toBeNull();
});
