import { describe, expect, it } from "vitest";
import { csvFile } from "./csv.ts";

const columns = [
  { name: "model", value: (row: { model: string | null; amount: string | number }) => row.model },
  { name: "amount", value: (row: { model: string | null; amount: string | number }) => row.amount },
];

describe("csvFile", () => {
  it("is a download that no cache keeps", () => {
    const { headers } = csvFile("usage 2026/10", columns, []);
    expect(headers.get("content-type")).toBe("text/csv; charset=utf-8");
    expect(headers.get("content-disposition")).toBe('attachment; filename="usage-2026-10.csv"');
    expect(headers.get("cache-control")).toBe("private, no-store");
  });

  it("has a header, and lines that end as RFC 4180 says", async () => {
    const file = csvFile("usage", columns, [{ model: "a", amount: 1 }]);
    expect(await file.text()).toBe("model,amount\r\na,1\r\n");
  });

  it.each([
    ['say "hi"', '"say ""hi"""'],
    ["a,b", '"a,b"'],
    ["two\nlines", '"two\nlines"'],
    ["naïve", "naïve"],
  ])("quotes %j", async (model, field) => {
    expect(await csvFile("x", columns, [{ model, amount: 0 }]).text()).toBe(`model,amount\r\n${field},0\r\n`);
  });

  it.each(["=1+1", "+1", "-1+2", "@sum", "\tx", "-", "＝1+1", "＋1", "－1", "＠sum"])(
    "leads %j, which a spreadsheet would run, by an apostrophe",
    async (model) => {
      const [, line] = (await csvFile("x", columns, [{ model, amount: 0 }]).text()).split("\r\n");
      expect(line).toBe(`'${model},0`);
    },
  );

  it("leaves exact amounts as they are, negative ones too, and nothing for none", async () => {
    const file = csvFile("x", columns, [{ model: null, amount: "-0.000000000001" }]);
    expect(await file.text()).toBe("model,amount\r\n,-0.000000000001\r\n");
  });
});
