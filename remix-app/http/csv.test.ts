import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { createCsvResponse } from "./csv.ts";

interface Row {
  model: string | null;
  amount: string | number;
}
const columns = [
  { name: "model", value: (row: Row) => row.model },
  { name: "amount", value: (row: Row) => row.amount },
];
const fileOf = (rows: Row[], name = "usage") => createCsvResponse(columns, { name, pages: [rows] });

describe("csvFile", () => {
  it("a CSV file is a download that must not be cached", async () => {
    const { headers } = await fileOf([], "usage 2026/10");
    expect(headers.get("content-type")).toBe("text/csv; charset=utf-8");
    expect(headers.get("content-disposition")).toBe('attachment; filename="usage-2026-10.csv"');
    expect(headers.get("cache-control")).toBe("private, no-store");
  });

  it("a CSV file has a header, and line endings as in RFC 4180", async () => {
    const file = await fileOf([{ model: "a", amount: 1 }]);
    expect(await file.text()).toBe("model,amount\r\na,1\r\n");
  });

  it.each([
    ['say "hi"', '"say ""hi"""'],
    ["a,b", '"a,b"'],
    ["two\nlines", '"two\nlines"'],
    ["naïve", "naïve"],
  ])("quotes %j in a CSV field if necessary", async (model, field) => {
    expect(await (await fileOf([{ model, amount: 0 }])).text()).toBe(`model,amount\r\n${field},0\r\n`);
  });

  it.each(["=1+1", "+1", "-1+2", "@sum", "\tx", "-", "＝1+1", "＋1", "－1", "＠sum"])(
    "puts an apostrophe before %j, which a spreadsheet would run as a formula",
    async (model) => {
      const [, line] = (await (await fileOf([{ model, amount: 0 }])).text()).split("\r\n");
      expect(line).toBe(`'${model},0`);
    },
  );

  // A spreadsheet set to a European region separates fields by `;` and then ignores quotation marks inside a field.
  it.each([
    ["x;=1+1;", "x;'=1+1;"],
    ["x; =1+1", "x;' =1+1"],
    ["x\t@sum", "x\t'@sum"],
    ["x|-1", "x|'-1"],
    ['x;"=1+1', '"x;\'""=1+1"'],
    ["x\n=1+1", '"x\n\'=1+1"'],
    ["=1;+2", "'=1;'+2"],
    ["x;＝1", "x;'＝1"],
    ["a;b, c", '"a;b, c"'],
    ["a - b; c=d", "a - b; c=d"],
  ])("writes %j so that no separator turns its rest into a formula", async (model, field) => {
    expect(await (await fileOf([{ model, amount: 0 }])).text()).toBe(`model,amount\r\n${field},0\r\n`);
  });

  it("leaves exact amounts unchanged, including negative ones, and writes null as an empty field", async () => {
    const file = await fileOf([{ model: null, amount: "-0.000000000001" }]);
    expect(await file.text()).toBe("model,amount\r\n,-0.000000000001\r\n");
  });

  it("a CSV file without rows contains only the header", async () => {
    for (const pages of [[], [[]]]) {
      expect(await (await createCsvResponse(columns, { name: "usage", pages })).text()).toBe("model,amount\r\n");
    }
  });

  it("a CSV file contains every row once, in order, and loads at most one page ahead of its reader", async () => {
    let read = 0;
    async function* pages() {
      for (; read < 50; read++) yield [0, 1].map((n) => ({ model: `m${read * 2 + n}`, amount: n }));
    }
    const { body } = await createCsvResponse(columns, { name: "usage", pages: pages() });
    const reader = body?.getReader();
    const texts: string[] = [];
    for (let chunk = await reader?.read(); chunk?.value; chunk = await reader?.read()) {
      texts.push(new TextDecoder().decode(chunk.value));
      expect(read).toBeLessThanOrEqual(texts.length + 1);
    }
    const models = texts
      .join("")
      .split("\r\n")
      .slice(1, -1)
      .map((line) => line.split(",")[0]);
    expect(models).toEqual(Array.from({ length: 100 }, (_, n) => `m${n}`));
  });

  async function* failingAfter(readable: number, refusal: Response) {
    for (let n = 0; n < readable; n++) yield [{ model: "a", amount: n }];
    throw refusal;
  }

  it("if the first page of a CSV file can't be read, the file fails with that page's error", async () => {
    const refusal = new Response(null, { status: 403 });
    const file = createCsvResponse(columns, { name: "usage", pages: failingAfter(0, refusal) });
    await expect(file).rejects.toBe(refusal);
  });

  it("breaks the connection if a later page can't be read, so that the file doesn't look complete", async () => {
    const errors = vi.spyOn(console, "error").mockReturnValue();
    onTestFinished(() => errors.mockRestore());
    const pages = () => failingAfter(3, new Response(null, { status: 503 }));
    const server = serve({
      fetch: () => createCsvResponse(columns, { name: "usage", pages: pages() }),
      port: 0,
      overrideGlobalObjects: false,
    });
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const file = fetch(`http://127.0.0.1:${port}/usage.csv`);
    await expect(file.then((response) => response.text())).rejects.toThrow();
    expect(String(errors.mock.calls[0]?.[0])).toContain("The file usage broke off");
  });

  it("stops reading pages once the client cancels the CSV download, and closes the source of the pages", async () => {
    let read = 0;
    let ended = false;
    async function* pages() {
      try {
        for (;;) yield [{ model: "a", amount: read++ }];
      } finally {
        ended = true;
      }
    }
    const { body } = await createCsvResponse(columns, { name: "usage", pages: pages() });
    const reader = body?.getReader();
    await reader?.read();
    await reader?.cancel();
    expect([read <= 3, ended]).toEqual([true, true]);
  });
});
