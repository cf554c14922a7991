import { describe, expect, test } from "vitest";
import { parseMultipart } from "./multipart.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const parse = (body: string, { boundary = "b", maxParts = 10 } = {}) =>
  parseMultipart(encode(body), { contentType: `multipart/form-data; boundary=${boundary}`, maxParts });
const part = (headers: string, content = "x", boundary = "b") => `--${boundary}\r\n${headers}\r\n\r\n${content}\r\n`;
const field = (name: string) => part(`Content-Disposition: form-data; name="${name}"`);

describe("parsing multipart/form-data", () => {
  test("reads a body that the platform's own FormData encodes, with any text and bytes", async () => {
    const form = new FormData();
    form.set("empty", "");
    form.set("text", "a\r\n--b\r\nä😀\ufeff");
    form.set('quo"te', "1");
    const bytes = Uint8Array.from({ length: 70_000 }, (_, n) => n * n);
    form.set("file", new File([bytes], 'ä "1".csv', { type: "text/csv" }));
    form.set("none", new File([], ""));
    const sent = new Response(form);
    const contentType = sent.headers.get("content-type") ?? "";
    const fields = parseMultipart(new Uint8Array(await sent.arrayBuffer()), { contentType, maxParts: 5 });
    expect(fields?.map(([name, value]) => [name, typeof value === "string" ? value : value.name])).toEqual([
      ["empty", ""],
      ["text", "a\r\n--b\r\nä😀\ufeff"],
      ['quo"te', "1"],
      ["file", 'ä "1".csv'],
      ["none", ""],
    ]);
    const file = fields?.[3]?.[1] as File;
    expect([file.type, new Uint8Array(await file.arrayBuffer())]).toEqual(["text/csv", bytes]);
  });

  // RFC 2046 section 5.1.1: a preamble is ignored, and a boundary may end with spaces and tabs.
  test.each([
    ["an empty line before the first boundary", `\r\n${field("a")}--b--`],
    ["a preamble", `This is a form.\r\n-- b\r\n${field("a")}--b--`],
    ["spaces and tabs after boundaries", `${field("a").replace("--b", "--b \t ")}--b-- \t`],
    ["an epilogue", `${field("a")}--b--\r\nThe end.`],
  ])("reads a body with %s", (_, body) => {
    expect(parse(body)).toEqual([["a", "x"]]);
  });

  test("stops at the first part beyond the limit", () => {
    const body = `${field("a")}${field("b")}--b--`;
    expect(parse(body, { maxParts: 2 })).toHaveLength(2);
    expect(parse(body, { maxParts: 1 })).toBeNull();
    // The rest isn't parsed, so that it may be anything.
    expect(parse(`${field("a")}${field("b")}nonsense`, { maxParts: 1 })).toBeNull();
  });

  // RFC 7578 section 4.2: the parameters of Content-Disposition; names of headers ignore case (RFC 2045).
  test.each([
    ['content-disposition: FORM-DATA; name="a"', "a"],
    ["Content-Disposition: form-data; name=a", "a"],
    ['Content-Disposition: form-data; filename="name=b"; name="a"', "a"],
    ['Content-Type: text/plain\r\nContent-Disposition: form-data; name="a"', "a"],
    ['Content-Disposition: form-data; name="a%22%0D%0Ab%2f"', 'a"\r\nb%2f'],
  ])("reads the name in the headers %j", (headers, name) => {
    expect(parse(`${part(headers)}--b--`)?.[0]?.[0]).toBe(name);
  });

  test.each([
    ["no boundary at the start", `x${field("a")}--b--`],
    ["only a preamble", "This is a form.\r\n--b--"],
    ["no end", field("a")],
    ["text after a boundary", `${field("a")}--bx`],
    ["no name", `${part("Content-Disposition: form-data")}--b--`],
    ["another disposition", `${part('Content-Disposition: attachment; name="a"')}--b--`],
    ["no headers", "--b\r\n\r\nx\r\n--b--"],
    ["a NUL in a name", `${field("a\0")}--b--`],
    ["a NUL in a file name", `${part('Content-Disposition: form-data; name="a"; filename="x\0"')}--b--`],
    ["headers of 5 KB", `${part(`Content-Disposition: form-data; name="a"\r\nX: ${"x".repeat(5_000)}`)}--b--`],
    ["an empty body", ""],
  ])("refuses a body with %s", (_, body) => {
    expect(parse(body)).toBeNull();
  });

  test.each(["", '""', "x".repeat(71), '"'])("refuses the boundary %j", (boundary) => {
    expect(parse(field("a"), { boundary })).toBeNull();
  });

  // Each of these would take seconds in a parser whose time isn't linear in the body's size.
  test.each([
    ["100,000 parts", field("a").repeat(100_000), "b"],
    ["8 MiB of almost the boundary", `--${"a".repeat(70)}\r\n${"\r\n--".repeat(2_000_000)}`, "a".repeat(70)],
    [
      "a part of 8 MiB of almost the boundary",
      `${part('Content-Disposition: form-data; name="a"', `\r\n--${"a".repeat(69)}`.repeat(110_000), "a".repeat(70))}`,
      "a".repeat(70),
    ],
    ["a preamble of 8 MiB", "\r\n--".repeat(2_000_000), "b"],
    ["8 MiB of spaces after a boundary", `--b${" ".repeat(8_000_000)}`, "b"],
    ["1,000,000 header lines", `--b\r\n${"a: b\r\n".repeat(1_000_000)}`, "b"],
  ])("refuses %s within 200 ms of processor time", (_, body, boundary) => {
    const bytes = encode(body);
    const contentType = `multipart/form-data; boundary=${boundary}`;
    const started = process.threadCpuUsage();
    expect(parseMultipart(bytes, { contentType, maxParts: 600 })).toBeNull();
    const { user, system } = process.threadCpuUsage(started);
    expect((user + system) / 1_000).toBeLessThan(200);
  });
});
