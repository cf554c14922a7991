import { createApp } from "../scripts/test/apps.ts";
import { query } from "../scripts/test/people.ts";
import { enter, expect, expectWellMade, type Person, test } from "./test.ts";

/** Creates an app linked to a person's own workspace. */
async function linkApp({ email }: Person): Promise<{ workspaceId: string; appId: string }> {
  const [found] = await query<{ id: string }>(
    "select w.id from public.workspaces w join auth.users u on u.id = w.personal_user_id where u.email = $1",
    [email],
  );
  const workspaceId = found?.id ?? "";
  const app = await createApp({
    kind: "external",
    scopes: ["workspace:session", "ai:use"],
    workspaceId,
    displayName: "Ledger",
  });
  return { workspaceId, appId: app.id };
}

/** Imports the costs of a provider account on behalf of the app. */
async function importCosts(
  { workspaceId, appId }: { workspaceId: string; appId: string },
  records: Record<string, string>[],
): Promise<void> {
  await query(
    `select ai.store_provider_cost($1, $2, $3::jsonb || r)
     from jsonb_array_elements($4::jsonb) as r`,
    [
      workspaceId,
      appId,
      JSON.stringify({ provider: "openai", accountId: "proj_1", observedAt: "2026-02-02T00:00:00Z" }),
      JSON.stringify(records),
    ],
  );
}

const range = "from=2026-01-01&to=2026-01-31";

test("costs are imported, an invoice is entered once, and reconciliation shows the result", async ({
  page,
  member,
}) => {
  const place = await linkApp(member);
  const base = `/workspaces/${place.workspaceId}/ai`;
  await enter(page, member, `${base}/costs`);
  await expect(page.getByText("Nothing was imported for this range.")).toBeVisible();

  await importCosts(place, [
    { externalRunId: "run-1", amountUsd: "0.1", occurredAt: "2026-01-20T09:00:00Z" },
    { externalRunId: "run-2", amountUsd: "0.2", occurredAt: "2026-01-20T10:00:00Z" },
    {
      externalRunId: "proj_1:2026-01-20",
      amountUsd: "0.300000000001",
      occurredAt: "2026-01-20T00:00:00Z",
      granularity: "account_day",
    },
  ]);
  await page.goto(`${base}/costs?${range}`);
  await expect(page.getByRole("row", { name: /run-1/ })).toContainText("Replaced by proj_1:2026-01-20");
  await expect(page.getByRole("row", { name: /proj_1:2026-01-20 openai/ })).toContainText("replaces 2 runs");
  await expectWellMade(page);

  await page.goto(`${base}/reconciliation?month=2026-01`);
  const account = page.getByRole("row", { name: /Account proj_1/ });
  await expect(account).toContainText("Not metered");
  await expectWellMade(page);
  await account.getByRole("link", { name: "Enter invoice" }).click();

  await expect(page.getByLabel("Period’s last day")).toHaveValue("2026-01-31");
  await page.getByLabel("Net amount").fill("1,5");
  await page.getByRole("button", { name: "Review invoice" }).click();
  await expect(page.getByRole("alert")).toContainText("without commas");
  await expectWellMade(page);
  await page.getByLabel("Reference").fill("INV-2026-01");
  await page.getByLabel("Net amount").fill("0.300000000002");
  await page.getByLabel("Issued on").fill("2026-02-01");
  await page.getByRole("button", { name: "Review invoice" }).click();
  await expect(page.getByRole("definition").getByText("$0.300000000002", { exact: true }).first()).toBeVisible();
  await page.getByRole("button", { name: "Edit" }).click();
  await expect(page.getByLabel("Reference")).toHaveValue("INV-2026-01");
  await page.getByRole("button", { name: "Review invoice" }).click();
  await page.getByRole("button", { name: "Record invoice" }).dblclick();
  await expect(page.getByText("Invoice recorded.")).toBeVisible();
  await expectWellMade(page);

  await page.goto(`${base}/reconciliation?month=2026-01`);
  await expect(account).toContainText("Invoiced − imported $0.00");
  await expect(account).toContainText("Not metered");
  await account.getByRole("link", { name: "Invoices" }).click();
  await expect(page.getByRole("row")).toHaveCount(2);
  await expectWellMade(page);
  const kept = await query("select from ai.external_provider_invoices where workspace_id = $1", [place.workspaceId]);
  expect(kept).toHaveLength(1);
});
