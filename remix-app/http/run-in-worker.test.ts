import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import type { ReadBill } from "../studio/costs/cost-import/read-bill.ts";
import { runInWorker } from "./run-in-worker.ts";

const bill = (text: string | Uint8Array<ArrayBuffer>) => {
  const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
  return { input: { source: { bytes, fileName: "a.csv" }, fields: [] }, transfer: [bytes.buffer] };
};
const read = (text: string | Uint8Array<ArrayBuffer>, owner = "ada") =>
  runInWorker<ReadBill | { error: string }>("readBill", { ...bill(text), owner, requestId: "r" });
const costs = "usage_date_utc,cost_usd\n2026-10-03,1\n";
const errorOf = async (text: string | Uint8Array<ArrayBuffer>) => {
  const answer = await read(text, crypto.randomUUID());
  return "error" in answer ? answer.error : "none";
};

test("reads a cost file in a thread, and again from its kept contents", async () => {
  const first = await read(costs);
  expect(first).toMatchObject({ bill: { file: { rows: 1 }, services: [{ service: null }] }, hash: expect.any(String) });
  const { contents, ...rest } = first as ReadBill;
  const input = { source: { contents }, fields: [] };
  const again = await runInWorker<ReadBill>("readBill", { input, owner: "ada", requestId: "r" });
  expect(again).toEqual({ ...rest, contents: null });
});

test("an owner's tasks run one after the other, so that another owner's task doesn't wait for them", async () => {
  const finished: string[] = [];
  const owners = ["bob", "bob", "bob", "eve"];
  await Promise.all(owners.map((owner) => read(costs, owner).then(() => finished.push(owner))));
  // Eve's task is the last to arrive, but the second to start. On a busy machine, a second task of bob may overtake it.
  expect(finished.at(-1)).toBe("bob");
}, 60_000);

test("ten tasks run or wait, and another one is refused", async () => {
  const owners = Array.from({ length: 11 }, (_, n) => `owner ${n}`);
  const all = await Promise.allSettled(owners.map((owner) => read(costs, owner)));
  expect(all.filter(({ status }) => status === "fulfilled")).toHaveLength(10);
  expect(all.at(-1)).toMatchObject({ status: "rejected", reason: { status: 429 } });
  expect(await read(costs, "owner 10")).toMatchObject({ bill: {} });
}, 60_000);

const mebibyte = 1024 * 1024;
const gzip = (text: string) => new Uint8Array(gzipSync(text));
const focusHeader =
  "BilledCost,BillingAccountId,BillingCurrency,ChargePeriodStart,ProviderName,ServiceName,SubAccountId";
const row = (n: number) => `1,p,USD,2026-10-01T00:00:00Z,Mistral,s${n},acct`;

test.each<[string, () => string | Uint8Array<ArrayBuffer>, RegExp]>([
  ["a list of empty objects", () => gzip(`{"data":[${"{},".repeat(5 * mebibyte)}{}]}`), /more than 500,000 values/],
  ["nested lists", () => gzip(`{"data":${"[".repeat(7 * mebibyte)}${"]".repeat(7 * mebibyte)}}`), /values|nested/],
  ["a file that unpacks to 2 GiB", () => gzip("\n".repeat(64 * mebibyte)), /larger than 16 MiB when unpacked/],
  ["a header of 200,000 columns", () => "a,".repeat(200_000), /columns/],
  ["duplicate names", () => gzip(`{"data":[{${'"a":1,'.repeat(2 * mebibyte)}"a":1}]}`), /more than 500,000 values/],
  [
    "an amount of a million digits",
    () => `usage_date_utc,cost_usd\n2026-10-03,${"9".repeat(mebibyte)}\n`,
    /column cost_usd/,
  ],
  [
    "many currencies",
    () => [focusHeader, ...codes().map((code) => row(0).replace("USD", code))].join("\n"),
    /too many/,
  ],
  ["a workbook", () => "PK\u0003\u0004", /ZIP archive or a workbook/],
  ["a quote that isn't closed", () => `usage_date_utc,cost_usd\n"${"x".repeat(7 * mebibyte)}`, /incomplete|valid CSV/],
])(
  "a cost file with %s is refused without work in the server’s own thread",
  async (_, make, message) => {
    const file = make();
    const before = process.threadCpuUsage();
    expect(await errorOf(file)).toMatch(message);
    // This thread only starts the other one and waits. Parsing here would take seconds.
    const { user, system } = process.threadCpuUsage(before);
    expect((user + system) / 1_000).toBeLessThan(250);
  },
  60_000,
);

function codes(): string[] {
  const letters = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZ"];
  return letters.flatMap((one) => letters.slice(0, 2).map((two) => `X${one}${two}`));
}
