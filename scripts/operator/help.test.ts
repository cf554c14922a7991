import { spawnSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { usage as adminUsage } from "./admins/command.ts";
import { usage as appUsage } from "./apps/command.ts";
import { usage as pricesUsage } from "./prices/command.ts";
import { usage as importCostsUsage } from "./provider-costs/cost-file-options.ts";
import { usage as serviceAccountUsage } from "./service-accounts/command.ts";

test.each([
  ["scripts/operator/admin.ts", ["--help"], adminUsage],
  ["scripts/operator/admin.ts", ["grant", "-h"], adminUsage],
  ["scripts/operator/app.ts", ["--help"], appUsage],
  ["scripts/operator/import-costs.ts", ["--help"], importCostsUsage],
  ["scripts/operator/prices.ts", ["propose", "--help"], pricesUsage],
  ["scripts/operator/service-account.ts", ["--help"], serviceAccountUsage],
])("%s %j shows the usage text even if no Supabase project is configured", (script, argv, usage) => {
  const { PATH = "", NODE_ENV } = process.env;
  const env = { PATH, NODE_ENV, GATEHOUSE_STACK: "none.json" };
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...argv], { env, encoding: "utf8" });
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: `${usage}\n`, stderr: "" });
});

test.each([
  ["SUPABASE_URL", "http://127.0.0.1:1", "Set SUPABASE_SECRET_KEY too, or neither for the local stack."],
  ["SUPABASE_SECRET_KEY", "sb_secret_1", "Set SUPABASE_URL too, or neither for the local stack."],
])("does not fall back to the local stack when only %s is set", (name, value, message) => {
  const stack = path.join(mkdtempSync(path.join(tmpdir(), "stack-")), "stack.json");
  writeFileSync(stack, JSON.stringify({ supabase: { url: "http://127.0.0.1:1", secretKey: "sb_secret_local" } }));
  const { PATH = "", NODE_ENV } = process.env;
  const env = { PATH, NODE_ENV, GATEHOUSE_STACK: stack, [name]: value };
  const { status, stderr } = spawnSync(process.execPath, ["scripts/operator/app.ts", "list"], {
    env,
    encoding: "utf8",
  });
  expect({ status, stderr }).toEqual({ status: 1, stderr: `${message}\n` });
});
