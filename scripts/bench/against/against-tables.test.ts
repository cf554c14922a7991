import { expect, test } from "vitest";
import { planOf } from "../options.ts";
import { curveShares } from "../statistics.ts";
import { againstTables } from "./against-tables.ts";
import type { AgainstMeasurements } from "./measure-against.ts";

const sample = (
  label: string,
  round: number,
  { perSecond, caller = "keys" }: { perSecond: number; caller?: string },
): AgainstMeasurements["samples"][number] => ({
  ...{ label, round, caller, connections: 16, perSecond, failed: 0 },
  quantilesMs: Number.isNaN(perSecond) ? [] : curveShares.map((share) => (share === 0.5 ? 4 : 9)),
  ...{ gatewayCpuMs: 0.25, postgresCpuMs: 0.5, statementMs: 0.125 },
});

const measured: AgainstMeasurements = {
  part: "gateway",
  labels: { ours: "this checkout", theirs: "abc", peers: ["Portkey"] },
  machineLoads: [0.25, 3],
  samples: [
    sample("this checkout", 1, { perSecond: 2_000 }),
    sample("abc", 1, { perSecond: 1_000 }),
    sample("Portkey", 1, { perSecond: 500 }),
    sample("Portkey", 2, { perSecond: 1_000 }),
    sample("abc", 2, { perSecond: Number.NaN }),
    sample("this checkout", 2, { perSecond: 3_000 }),
    sample("this checkout", 1, { perSecond: 1_000, caller: "app token" }),
    sample("this checkout", 2, { perSecond: 3_000, caller: "app token" }),
  ],
  counts: [{ label: "abc", caller: "keys", connections: 16, sent: 0.25, all: 2.5 }],
  memory: [
    { label: "this checkout", bytes: 210 * 1_048_576 },
    { label: "two processes", bytes: 420 * 1_048_576 },
  ],
};

function rowOf(name: string, given = measured): string[] {
  const line = againstTables(given, planOf({ quick: true }))
    .split("\n")
    .find((candidate) => candidate.startsWith(`| ${name} `));
  return (line ?? "")
    .split("|")
    .slice(2, -1)
    .map((cell) => cell.trim());
}

test("compares another commit and a peer within the same round, and leaves out a load that does not count", () => {
  expect(rowOf("connections")).toEqual([
    ...["this checkout", "abc", "Portkey"],
    ...["this checkout ÷ abc", "this checkout ÷ Portkey", "abc ÷ Portkey"],
  ]);
  expect(rowOf("16: calls a second")).toEqual([
    ...["2,000 (2,000–3,000)", "1,000", "500 (500–1,000)"],
    ...["2.00", "3.00 (3.00–4.00)", "2.00"],
  ]);
  expect(rowOf("16: p50, ms").slice(0, 2)).toEqual(["4.00", "4.00"]);
  expect(rowOf("16: statements executed a call")).toEqual(["—", "2.5", "—", "—", "—", "—"]);
});

test("compares each caller with calls of many keys, and reports the machine's load of each round", () => {
  expect(rowOf("16, app token: calls a second")).toEqual(["1,000 (1,000–3,000)", "—", "—", "0.50 (0.50–1.00)", "—"]);
  expect(againstTables(measured, planOf({ quick: true }))).toContain("before the rounds: 0.25, 3.00.");
});

test("compares each request of the web server by its own figures, and with the peers that answer it", () => {
  const samples = [
    sample("this checkout", 1, { perSecond: 3_000, caller: "/login" }),
    sample("abc", 1, { perSecond: 1_000, caller: "/login" }),
    sample("this checkout", 1, { perSecond: 500, caller: "token" }),
    sample("oidc-provider", 1, { perSecond: 1_000, caller: "token" }),
  ];
  const labels = { ours: "this checkout", theirs: "abc", peers: ["oidc-provider"] };
  const web: AgainstMeasurements = { ...measured, part: "web", labels, samples, counts: [] };
  expect(rowOf("16, /login: calls a second", web)).toEqual(["3,000", "1,000", "—", "3.00", "—"]);
  expect(rowOf("16, token: calls a second", web)).toEqual(["500", "—", "1,000", "—", "0.50"]);
  expect(rowOf("16, /login: CPU server a call, ms", web)).toEqual(["0.250", "0.250", "—", "1.00", "—"]);
  expect(rowOf("16, /login: statements sent a call", web)).toEqual([]);
  const text = againstTables(web, planOf({ quick: true }));
  expect(text).toContain("Memory after the rounds: this checkout 210 MB, two processes 420 MB.");
});
