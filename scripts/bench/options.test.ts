import { expect, test } from "vitest";
import { parts, planOf, readOptions } from "./options.ts";

test("without options all parts run in full and without peers", () => {
  expect(readOptions([])).toEqual({
    quick: false,
    peers: false,
    help: false,
    write: undefined,
    parts: new Set(parts),
  });
});

test("--only runs one known part, and an unknown option is refused", () => {
  expect(readOptions(["--only", "web", "--quick"])).toMatchObject({ quick: true, parts: new Set(["web"]) });
  expect(readOptions(["--only", "growth"]).parts).toEqual(new Set(["growth"]));
  expect(() => readOptions(["--only", "everything"])).toThrow("gateway, reports, web, growth");
  expect(() => readOptions(["--fast"])).toThrow("--fast");
});

test("a quick run takes less of everything", () => {
  const [quick, full] = [planOf({ quick: true }), planOf({ quick: false })];
  expect(full.rounds).toBe(3);
  expect(quick.rounds).toBe(1);
  expect(quick.closedLoop.durationMs).toBeLessThan(full.closedLoop.durationMs);
  expect(quick.reports.runs).toBeLessThan(full.reports.runs);
});
