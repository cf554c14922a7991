import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { usage as adminUsage } from "../admins/command.ts";
import { usage as appUsage } from "../apps/command.ts";
import { usage as pricesUsage } from "../prices/command.ts";
import { usage as importCostsUsage } from "../provider-costs/cost-file-options.ts";

test.each([
  ["scripts/admin.ts", ["--help"], adminUsage],
  ["scripts/admin.ts", ["grant", "-h"], adminUsage],
  ["scripts/app.ts", ["--help"], appUsage],
  ["scripts/import-costs.ts", ["--help"], importCostsUsage],
  ["scripts/prices.ts", ["propose", "--help"], pricesUsage],
])("%s %j shows the usage, whether or not a project is there", (script, argv, usage) => {
  const { PATH = "", NODE_ENV } = process.env;
  const env = { PATH, NODE_ENV, GATEHOUSE_STACK: "none.json" };
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...argv], { env, encoding: "utf8" });
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: `${usage}\n`, stderr: "" });
});
