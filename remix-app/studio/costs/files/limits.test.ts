import { expect, test } from "vitest";
import { collectCosts } from "./collect-costs.ts";
import type { CostLine } from "./cost-file.ts";
import { jsonValues } from "./json-values.ts";
import { readCostFile } from "./read-cost-file.ts";

const line: CostLine = {
  provider: "aws",
  timeZone: "UTC",
  account: "1",
  day: "2026-10-01",
  service: null,
  currency: "USD",
  amount: { units: 1n, scale: 0 },
};

test.each([
  ["a".repeat(256), true],
  ["a".repeat(257), false],
  ["😀".repeat(256), true],
  ["\ud800", false],
  ["a\u0000b", false],
  ["arn:aws:iam::1:role/a b", true],
])("a cost account must be one line of at most 256 characters (case %#)", (account, isTaken) => {
  const add = () => collectCosts({}).add({ ...line, account }, "Row 2");
  if (isTaken) add();
  else expect(add).toThrow("Row 2: the account has more than 256 characters or isn’t one line of text.");
});

test("a cost file has at most 500,000 combinations of day, account and service", () => {
  const costs = collectCosts({});
  for (let n = 0; n < 500_000; n++) costs.add({ ...line, service: String(n) }, "Row");
  costs.add({ ...line, service: "0" }, "Row");
  expect(() => costs.add({ ...line, service: "500000" }, "Row")).toThrow("more than 500,000 combinations of day");
});

test("a cost file may have at most 40 rows above its header", async () => {
  const read = (rows: number) =>
    readCostFile(new TextEncoder().encode(`${"note,\n".repeat(rows)}usage_date_utc,cost_usd\n2026-10-03,1\n`), {
      fileName: "costs.csv",
    });
  expect((await read(40)).rows).toBe(1);
  await expect(read(41)).rejects.toThrow("The file’s columns (note) don’t match any supported export.");
});

test("a JSON value in a cost file has at most 32 MiB", async () => {
  const read = async (characters: number) => {
    async function* parts() {
      yield `{${"x".repeat(characters - 1)}`;
    }
    for await (const _ of jsonValues(parts()));
  };
  await expect(read(32 * 1024 * 1024)).rejects.toThrow("ends inside a JSON value");
  await expect(read(32 * 1024 * 1024 + 1)).rejects.toThrow("a JSON value larger than 32 MiB");
});

test("a JSON value in a cost file has at most 500,000 values", async () => {
  const read = async (values: number) => {
    async function* parts() {
      yield `{"a":[${"0,".repeat(values - 2)}0]}{"b":1}`;
    }
    for await (const _ of jsonValues(parts()));
  };
  await expect(read(500_000)).resolves.toBeUndefined();
  await expect(read(500_001)).rejects.toThrow("more than 500,000 values");
});

test("JSON is read in chunks of any size, with escapes and brackets in strings", async () => {
  const text = '[{"a": "\\"}]{\\\\"}, [1, {"b": "]"}]]\n{"c": 1}{"d": []}';
  async function* characters() {
    yield* text;
  }
  const values: unknown[] = [];
  for await (const value of jsonValues(characters())) values.push(value);
  expect(JSON.stringify(values)).toBe('[{"a":"\\"}]{\\\\"},[1,{"b":"]"}],{"c":1},{"d":[]}]');
});

test.each(["]", "[[1]", '{"a": 1}]', "[{}] x", '[1, {"a": 1}]', '{"a" 1}', "[{}"])(
  "the malformed JSON %s is rejected",
  async (text) => {
    const read = async () => {
      async function* parts() {
        yield text;
      }
      for await (const _ of jsonValues(parts()));
    };
    await expect(read()).rejects.toThrow(/doesn’t contain JSON objects|ends inside/);
  },
);
