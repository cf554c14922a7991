import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import { type FileRecord, readCsvRows, readJsonLines, readUserList } from "./read-records.ts";

const folder = mkdtempSync(path.join(tmpdir(), "read-records-"));
afterAll(() => rmSync(folder, { recursive: true }));

function writeExport(name: string, text: string): string {
  const file = path.join(folder, name);
  writeFileSync(file, text);
  return file;
}

/** Returns what is read, with the line of each record, and the message for each record that cannot be read. */
async function readAll(records: AsyncIterable<FileRecord>) {
  const all: [number, unknown][] = [];
  for await (const record of records) {
    all.push([record.line, "fault" in record ? record.fault.message : record.value]);
  }
  return all;
}

test("reads JSON by line, and continues after a damaged line", async () => {
  const long = JSON.stringify("x".repeat(1024 * 1024));
  const text = `{"a":1}\r\n\n{"a":\n${long}\n{"a":"ü"}`;
  expect(await readAll(readJsonLines(writeExport("lines.json", text)))).toEqual([
    [1, { a: 1 }],
    [3, "not JSON"],
    [4, "longer than 1 MiB"],
    [5, { a: "ü" }],
  ]);
});

test.each([
  [
    "as firebase auth:export writes it",
    '{"users": [\n{\n  "a": "}]\\"{"\n},\n{\n  "a": [{}]\n}]}',
    [
      [2, { a: '}]"{' }],
      [5, { a: [{}] }],
    ],
  ],
  ["an empty one", '{"users": []}', []],
  ["a bare list", '[{"a":1}]', [[1, { a: 1 }]]],
  [
    "one that ends inside a user",
    '[{"a":1},\n{"a":',
    [
      [1, { a: 1 }],
      [2, "the file ends before its list of users does"],
    ],
  ],
  [
    "one that ends between users",
    '[{"a":1},',
    [
      [1, { a: 1 }],
      [1, "the file ends before its list of users does"],
    ],
  ],
  [
    "one with a damaged user",
    '[{"a":b},{"a":1}]',
    [
      [1, "not JSON"],
      [1, { a: 1 }],
    ],
  ],
  ["one larger than a part of the file", `[{"a":"${"x".repeat(100_000)}"}]`, [[1, { a: "x".repeat(100_000) }]]],
] as const)("reads a list of users: %s", async (_, text, expected) => {
  expect(await readAll(readUserList(writeExport("list.json", text)))).toEqual(expected);
});

test("stops at a user of more than 1 MiB, after which nothing can be trusted", async () => {
  const file = writeExport("long.json", `[{"a":"${"x".repeat(1_200_000)}"},{"a":1}]`);
  expect(await readAll(readUserList(file))).toEqual([[1, expect.stringContaining("longer than 1 MiB")]]);
});

test.each(['{"kind":"users"}', "", '"users"', "x".repeat(200)])(
  "refuses %j, which is no list of users",
  async (text) => {
    await expect(readAll(readUserList(writeExport("other.json", text)))).rejects.toThrow(
      'does not begin with {"users"',
    );
  },
);

test("reads CSV by its header, and continues after a damaged row", async () => {
  const file = writeExport("rows.csv", '\uFEFFid,name\r\n1,"Lee, ""Ann"""\n2\n3,"a\nb"\n4,x\n');
  expect(await readAll(readCsvRows(file, { columns: ["id", "name"] }))).toEqual([
    [2, { id: "1", name: 'Lee, "Ann"' }],
    [5, { id: "3", name: "a\nb" }],
    [6, { id: "4", name: "x" }],
    [3, "not a row of CSV with all columns"],
  ]);
  await expect(readAll(readCsvRows(file, { columns: ["id", "totp_secret"] }))).rejects.toThrow(
    "lacks the columns totp_secret",
  );
});

test("reports a quote that is never closed", async () => {
  const file = writeExport("quote.csv", 'id,name\n1,"x\n2,y\n');
  expect(await readAll(readCsvRows(file, { columns: ["id", "name"] }))).toEqual([
    [expect.any(Number), "not a row of CSV with all columns"],
  ]);
});
