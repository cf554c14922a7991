import { execFileSync, spawnSync } from "node:child_process";
import { expect, test } from "vitest";

const folder = import.meta.dirname;
const hasPromtool = spawnSync("promtool", ["--version"]).status === 0;
if (!hasPromtool) console.warn("promtool is not installed, so the alert rules were not tested (Debian: prometheus).");

const promtool = (...args: string[]) => execFileSync("promtool", args, { cwd: folder, encoding: "utf8" });

test.skipIf(!hasPromtool)("promtool accepts the rules and the example of Prometheus's settings", () => {
  expect(promtool("check", "rules", "alerts.yml")).toContain("10 rules found");
  expect(promtool("check", "config", "--syntax-only", "prometheus.yml")).toContain("SUCCESS");
});

test.skipIf(!hasPromtool)(
  "each alert fires on the recorded series of its fault, and on no series of normal traffic",
  () => {
    expect(promtool("test", "rules", "alerts.test.yml")).toContain("SUCCESS");
  },
);
