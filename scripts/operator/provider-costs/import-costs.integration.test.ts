import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type AppTenant, createAppTenant } from "../../../supabase/tests/gateway/app-tenant.ts";
import { readStack } from "../../test/stack.ts";

const run = promisify(execFile);
let tenant: AppTenant;
const folder = mkdtempSync(join(tmpdir(), "cost-files-"));
beforeAll(async () => {
  tenant = await createAppTenant();
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await tenant.close();
});

const header =
  "line_item_usage_account_id,line_item_line_item_type,line_item_usage_start_date,line_item_currency_code,line_item_unblended_cost,line_item_product_code";
function writeReport(name: string, ...rows: string[]): string {
  const path = join(folder, name);
  writeFileSync(path, `${[header, ...rows].join("\n")}\n`);
  return path;
}
async function importCosts(...argv: string[]): Promise<string> {
  const book = argv.includes("--platform") ? [] : ["--workspace", tenant.workspaceId, "--app", tenant.appId];
  const { stdout } = await run(process.execPath, ["scripts/operator/import-costs.ts", ...argv, ...book]);
  return stdout;
}
const storedCosts = (provider: string) =>
  tenant.db.query(
    `select account_id as account, external_run_id as "runId", granularity, amount_usd::float8 as usd, revision
     from ai.external_provider_costs where workspace_id = $1 and provider = $2 order by account_id, occurred_at`,
    [tenant.workspaceId, provider],
  );

test("shows what a cost file changes, stores it on request, and corrects it with a later file", async () => {
  const report = writeReport(
    "report-00001.csv",
    "111122223333,Usage,2026-10-01T00:00:00Z,USD,1.5,AmazonBedrock",
    "111122223333,Credit,2026-10-01T00:00:00Z,USD,-2,AmazonBedrock",
    "111122223333,Usage,2026-10-01T00:00:00Z,USD,100,AmazonS3",
    "444455556666,Usage,2026-10-02T00:00:00Z,EUR,10,AmazonBedrock",
  );
  const argv = [report, "--provider", "bedrock", "--service", "AmazonBedrock", "--rate", "EUR=1.08"];
  const preview = await importCosts(...argv);
  expect(preview).toContain("an AWS Cost and Usage Report, 4 rows.");
  expect(preview).toContain("  AmazonS3: 100 USD\n");
  expect(preview).toContain("  10 EUR at 1.08 = 10.8 USD\n");
  expect(preview).toContain("  Total: 10.3 USD\n");
  expect(preview).toContain("New: 2 days, 10.3 USD\n");
  expect(preview).toContain("Add --yes to import it.\nNothing was imported.");
  expect(await storedCosts("bedrock")).toEqual([]);

  expect(await importCosts(...argv, "--yes")).toContain("Imported: 2 new, 0 corrected, 0 unchanged days.");
  const first = [
    {
      account: "111122223333",
      runId: "bedrock-costs:111122223333:2026-10-01",
      granularity: "account_day",
      usd: -0.5,
      revision: 1,
    },
    {
      account: "444455556666",
      runId: "bedrock-costs:444455556666:2026-10-02",
      granularity: "account_day",
      usd: 10.8,
      revision: 1,
    },
  ];
  expect(await storedCosts("bedrock")).toEqual(first);
  expect(await importCosts(...argv, "--yes")).toContain("Nothing to import: all days have been imported already.");

  const part = writeReport("report-00002.csv", "111122223333,Usage,2026-10-01T00:00:00Z,USD,3,AmazonBedrock");
  const corrected = await importCosts(part, ...argv, "--yes");
  expect(corrected).toContain("  2026-10-01 111122223333: from -0.5 to 2.5 USD\n");
  expect(corrected).toContain("Imported: 0 new, 1 corrected, 1 unchanged days.");
  expect(await storedCosts("bedrock")).toEqual([{ ...first[0], usd: 2.5, revision: 2 }, first[1]]);
});

test("imports costs of the platform itself, which belong to no workspace", async () => {
  const account = `platform-${tenant.workspaceId}`;
  const report = writeReport("platform.csv", `${account},Usage,2026-10-01T00:00:00Z,USD,1.5,AmazonBedrock`);
  expect(await importCosts(report, "--platform", "--yes")).toContain("Imported: 1 new");
  expect(
    await tenant.db.query("select amount_usd::float8 as usd from ai.external_provider_costs where account_id = $1", [
      account,
    ]),
  ).toEqual([{ usd: 1.5 }]);
  expect(await storedCosts("aws")).toEqual([]);
});

test("reports existing costs from other files for the same days, and sets those costs to 0 on request", async () => {
  const report = (account: string) =>
    writeReport(`${account}.csv`, `${account},Usage,2026-09-01T00:00:00Z,USD,4,AmazonBedrock`);
  const named = ["--provider", "aws=cleared"];
  await importCosts(report("wrong"), ...named, "--yes");
  const right = await importCosts(report("right"), ...named);
  expect(right).toContain("Not in this file: 1 other imported day of this time, 4 USD, which stay. --clear sets them");
  const cleared = await importCosts(report("right"), ...named, "--clear", "--yes");
  expect(cleared).toContain("Set to 0: 1 imported day that this file lacks, 4 USD");
  expect(cleared).toContain("Imported: 1 new, 0 corrected, 0 unchanged days. 1 set to 0.");
  expect(await storedCosts("cleared")).toMatchObject([
    { account: "right", usd: 4 },
    { account: "wrong", usd: 0 },
  ]);
});

test.each([
  [["EUR,1"], [], "The bill has amounts in EUR. Add the USD for 1 EUR, such as --rate EUR=1.08."],
  [["USD,x"], [], 'Row 2: column line_item_unblended_cost is "x", which isn’t an amount.'],
  [["USD,1"], ["--service", "Bedrock"], "The bill has no service named Bedrock."],
])("refuses a bill with amount %j and arguments %j, and stores no costs", async ([amount], argv, message) => {
  const report = writeReport("refused.csv", `1,Usage,2026-10-01T00:00:00Z,${amount},AmazonS3`);
  await expect(importCosts(report, "--yes", ...argv)).rejects.toThrow(message);
  expect(await storedCosts("aws")).toEqual([]);
});

test("refuses an app that is not linked to the workspace, and a missing file", async () => {
  const report = writeReport("other.csv", "1,Usage,2026-10-01T00:00:00Z,USD,1,AmazonS3");
  const other = [report, "--workspace", tenant.workspaceId, "--app", crypto.randomUUID()];
  await expect(run(process.execPath, ["scripts/operator/import-costs.ts", ...other])).rejects.toThrow(
    "The app is not linked to the workspace: check both ids.",
  );
  await expect(importCosts(join(folder, "none.csv"))).rejects.toThrow("none.csv is not a file.");
});

test("reports that the project refused the secret key", async () => {
  const report = writeReport("key.csv", "1,Usage,2026-10-01T00:00:00Z,USD,1,AmazonS3");
  const env = { ...process.env, SUPABASE_URL: readStack().supabase.url, SUPABASE_SECRET_KEY: "sb_secret_wrong" };
  await expect(
    run(process.execPath, ["scripts/operator/import-costs.ts", report, "--platform"], { env }),
  ).rejects.toThrow("The project refused SUPABASE_SECRET_KEY. Check that it belongs to SUPABASE_URL.");
});
