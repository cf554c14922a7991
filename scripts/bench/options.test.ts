import { expect, test } from "vitest";
import { parts, planOf, readOptions } from "./options.ts";

test("by default, the benchmark runs all parts in full, without the peer gateways Portkey and LiteLLM", () => {
  expect(readOptions([])).toEqual({
    quick: false,
    peers: false,
    help: false,
    largest: false,
    write: undefined,
    against: undefined,
    parts: new Set(parts),
  });
});

test("--only selects one part of the benchmark, and unknown parts and options are refused", () => {
  expect(readOptions(["--only", "web", "--quick"])).toMatchObject({ quick: true, parts: new Set(["web"]) });
  expect(readOptions(["--only", "growth"]).parts).toEqual(new Set(["growth"]));
  expect(() => readOptions(["--only", "everything"])).toThrow(
    "gateway, reports, web, growth, plans, calls, bodies, slow-commits, overspend",
  );
  expect(() => readOptions(["--fast"])).toThrow("--fast");
});

test("--against compares only the gateway or the web server with another commit", () => {
  for (const part of ["gateway", "web"]) {
    const options = readOptions(["--only", part, "--against", "v0.1.0"]);
    expect(options).toMatchObject({ against: "v0.1.0", parts: new Set([part]) });
  }
  expect(() => readOptions(["--against", "v0.1.0"])).toThrow("--only gateway or --only web");
  expect(() => readOptions(["--only", "reports", "--against", "v0.1.0"])).toThrow("--only gateway or --only web");
});

test("a quick benchmark has fewer rounds, shorter loads and fewer calls than a full one", () => {
  const [quick, full] = [planOf({ quick: true }), planOf({ quick: false })];
  expect(full.rounds).toBe(3);
  expect(quick.rounds).toBe(1);
  expect(quick.closedLoop.durationMs).toBeLessThan(full.closedLoop.durationMs);
  expect(quick.reports.runs).toBeLessThan(full.reports.runs);
  expect(quick.calls.count).toBeLessThan(full.calls.count);
  expect(quick.overspend.calls).toBeLessThan(full.overspend.calls);
});

test("--largest measures growth only at the largest size", () => {
  expect(planOf(readOptions(["--only", "growth", "--largest"])).growth).toEqual([100]);
  expect(planOf(readOptions(["--only", "growth"])).growth).toEqual([1, 10, 100]);
});
