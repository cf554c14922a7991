import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { costLines } from "../../../testing/cost-file-lines.ts";
import { readCostFile, readCostFiles } from "./read-cost-file.ts";

const header = "usage_date_utc,model,workspace,cost_usd";
const csv = `${header}\n2026-10-03,Claude,Default,0.05\n`;
const bytes = (text: string) => new TextEncoder().encode(text);
const read = (content: Uint8Array | string, options: object = {}) =>
  readCostFile(typeof content === "string" ? bytes(content) : content, { fileName: "costs.csv", ...options });
const expected = ["anthropic 2026-10-03 default: 0.05 USD, Claude"];

describe("variants of CSV cost files", () => {
  test.each([
    ["with a byte order mark and CRLF", bytes(`\ufeff${csv.replaceAll("\n", "\r\n")}`)],
    ["in UTF-16, as Excel saves it", Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(csv, "utf16le")])],
    ["with tabs as delimiters", bytes(csv.replaceAll(",", "\t"))],
    ["with quotes around all cells", bytes(csv.replaceAll(/[^,\n]+/g, '"$&"'))],
    ["with alternative column names", bytes(csv.replace(header, " Usage Date UTC ,Model,WORKSPACE,CostUSD"))],
    ["with blank lines and rows of commas", bytes(`\n${csv.replace("\n", "\n\n,,,\n")},,,\n`)],
    ["with an extra empty column", bytes(csv.replaceAll("\n", ",\n"))],
    ["with an unnamed column at the end of its header", bytes(csv.replace("\n", ",\n"))],
    ["with a spreadsheet's delimiter hint", bytes(`sep=,\n${csv}`)],
    [
      "with line breaks in a cell",
      bytes(csv.replace("Claude", '"Clau\nde"')),
      ["anthropic 2026-10-03 default: 0.05 USD, Clau\nde"],
    ],
    ["compressed with gzip", gzipSync(csv)],
    ["compressed as several gzip members", Buffer.concat([gzipSync(csv.slice(0, 50)), gzipSync(csv.slice(50))])],
  ] as const)("reads a CSV file %s", async (_, content, lines: readonly string[] = expected) => {
    const file = await read(content);
    expect(costLines(file)).toEqual(lines);
    expect(file.notes).toEqual([]);
    expect(file.sha256).toBe(createHash("sha256").update(content).digest("hex"));
  });

  test("reads a CSV file in a stream with chunks of any size", async () => {
    async function* oneByOne() {
      for (const byte of bytes(csv.replace("Claude", "Clàude"))) yield new Uint8Array([byte]);
    }
    expect(costLines(await readCostFile(oneByOne(), { fileName: "a.csv" }))).toEqual([
      "anthropic 2026-10-03 default: 0.05 USD, Clàude",
    ]);
  });
});

describe("truncated cost files", () => {
  const packed = gzipSync(csv.repeat(50));
  test.each([
    ["inside its gzip data", packed.subarray(0, -20), "The compressed file is incomplete"],
    ["inside a quoted cell", bytes(`${csv}2026-10-04,"Clau`), "The file is incomplete: it ends inside a quoted cell"],
    ["in the middle of a row", bytes(`${csv}2026-10-04,Claude`), "Row 3 has 2 of 4 columns"],
    [
      "inside a character",
      bytes(csv.replace("Claude", "à")).subarray(0, header.length + 13),
      "isn’t UTF-8 text, or it’s incomplete",
    ],
    [
      "inside JSON",
      bytes('{"data": [{"start_time": 1730419200, "results": ['),
      "The file is incomplete: it ends inside a JSON value",
    ],
    ["after its header", bytes(`${header}\n`), "The file has a header but no costs"],
  ])("rejects a file truncated %s", async (_, content, message) => {
    await expect(read(content)).rejects.toThrow(message);
  });

  test("a CSV file without a final line break is read, and a note says to check that the file is complete", async () => {
    expect((await read(csv.trimEnd())).notes).toEqual([
      "The last line doesn’t end with a line break. Check that the file is complete.",
    ]);
  });
});

test.each([
  ["", "The file is empty."],
  ["PK\u0003\u0004zip", "The file is a ZIP archive or a workbook. Unpack it"],
  ["PAR1....", "The file is a Parquet file. Choose CSV"],
  ["%PDF-1.7", "The file is a PDF."],
  ["<!doctype html>", "The file is a web page or XML."],
  [
    "a,b\n1,2\n",
    "The file’s columns (a, b) don’t match any supported export. Import one of these, exactly as you downloaded it: a FOCUS export",
  ],
  ['{"ResultsByTime": []}', "The file’s JSON isn’t from a supported export (ResultsByTime)"],
  ["[1]", "The file doesn’t contain JSON objects"],
  ["{,}", "The file doesn’t contain JSON objects"],
  [`${csv}2026-10-04,Cl"aude,Default,1\n`, "Row 3 isn’t valid CSV: a quote is in the wrong place."],
])("rejects unreadable cost file %# with a message that explains the problem", async (content, message) => {
  await expect(read(content)).rejects.toThrow(message);
});

test("a damaged archive and a file in another text encoding are rejected", async () => {
  const packed = Buffer.from(gzipSync(csv));
  packed.fill(0x7f, 14, 30);
  await expect(read(packed)).rejects.toThrow("The compressed file is damaged");
  await expect(read(Buffer.from(csv.replace("Claude", "Clàude"), "latin1"))).rejects.toThrow("isn’t UTF-8 text");
});

test("the maximum size of a cost file applies to the unpacked file", async () => {
  const packed = gzipSync(csv);
  await expect(read(packed, { maxBytes: csv.length })).resolves.toBeDefined();
  await expect(read(packed, { maxBytes: csv.length - 1 })).rejects.toThrow("The file is larger than");
});

test("a cost file is read with the given provider, and a line without an account gets the given account", async () => {
  const file = await read(`${csv}2026-10-03,Claude,,1\n`, { provider: "My-Anthropic", account: "default" });
  expect(costLines(file)).toEqual(["my-anthropic 2026-10-03 default: 1.05 USD, Claude"]);
});

test("parts of a cost report are read as one file, and a single part is read with a note that others may be missing", async () => {
  const part = (amount: string) => bytes(csv.replace("0.05", amount));
  const file = await readCostFiles([
    { bytes: part("0.05"), fileName: "/tmp/costs-00001.csv" },
    { bytes: gzipSync(part("1.2E-7")), fileName: "costs-00002.csv.gz" },
  ]);
  expect(costLines(file)).toEqual(["anthropic 2026-10-03 default: 0.05000012 USD, Claude"]);
  expect([file.fileName, file.rows, file.notes]).toEqual(["costs-00001.csv and 1 more", 2, []]);
  for (const fileName of ["costs-00001.csv.gz", "part_0_0001.csv", "export000000000001.json"]) {
    expect((await read(csv, { fileName })).notes[0]).toContain("The report may have more parts.");
  }
});

test("rejects two cost files with the same content in one upload", async () => {
  const twice = ["a.csv", "a (1).csv"].map((fileName) => ({ bytes: bytes(csv), fileName }));
  await expect(readCostFiles(twice)).rejects.toThrow("a (1).csv: This is the same file as a.csv. List it only once.");
});

test("the error for several cost files names the file that is damaged or has a different format", async () => {
  const broken = [
    { bytes: bytes(csv), fileName: "a.csv" },
    { bytes: bytes(`${header}\n2026-10-03,Claude,Default,x\n`), fileName: "b.csv" },
  ];
  await expect(readCostFiles(broken)).rejects.toThrow('b.csv: Row 2: column cost_usd is "x", which isn’t an amount.');
  const mixed = [
    { bytes: bytes(csv), fileName: "a.csv" },
    { bytes: bytes("start_time,amount_value,amount_currency\n1730419200,1,usd\n"), fileName: "b.csv" },
  ];
  await expect(readCostFiles(mixed)).rejects.toThrow("b.csv: This is OpenAI’s cost export, but other files are");
});

test("a file name is stored without folders and control characters, and cut to 200 characters", async () => {
  expect((await read(csv, { fileName: "C:\\bills\\a\u0000b.csv" })).fileName).toBe("ab.csv");
  expect((await read(csv, { fileName: "x".repeat(201) })).fileName).toHaveLength(200);
});
