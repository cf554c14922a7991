import type { Page } from "playwright/test";
import { createApp } from "../scripts/test/apps.ts";
import { query } from "../scripts/test/people.ts";
import { enter, expect, expectWellMade, type Person, test } from "./test.ts";

/** A response of OpenAI's costs API with one bucket per day and a refund on the second day. */
const openAiCosts = JSON.stringify({
  object: "page",
  has_more: false,
  next_page: null,
  data: [
    ["2026-10-05", [42.2]],
    ["2026-10-06", [20, -2.1]],
  ].map(([day, amounts]) => ({
    object: "bucket",
    start_time: Date.parse(`${day}`) / 1000,
    end_time: Date.parse(`${day}`) / 1000 + 86_400,
    results: (amounts as number[]).map((value) => ({
      object: "organization.costs.result",
      amount: { value, currency: "usd" },
      line_item: "gpt-5, input",
      project_id: "proj_1",
    })),
  })),
});
/**
 * Links an app to the person's own workspace, with gateway usage that matches what the three providers charge for
 * October.
 */
async function createBooks({ email }: Person): Promise<string> {
  const [found] = await query<{ id: string }>(
    "select w.id from public.workspaces w join auth.users u on u.id = w.personal_user_id where u.email = $1",
    [email],
  );
  const workspaceId = found?.id ?? "";
  await createApp({
    kind: "external",
    scopes: ["workspace:session", "ai:use"],
    workspaceId,
    displayName: "Ledger",
  });
  await query(
    `insert into ai.usage_daily (
       workspace_id, day, provider_id, model_id, feature, execution_mode, requests, failed, input_tokens, output_tokens,
       cost_usd, billed_credits, unmetered_credits, latency_ms, timed, latency_marks, first_token_marks
     )
     select $1, '2026-10-08', p.id, 'chat', 'chat', 'interactive', 5, 0, 900, 100, p.cost, 0, 0, 0, 0, 0, 0
     from (values ('openai', 60.1), ('anthropic', 33.000000000001), ('gcp', 93)) as p (id, cost)`,
    [workspaceId],
  );
  return `/workspaces/${workspaceId}/ai`;
}

async function review(page: Page, { name, text }: { name: string; text: string }): Promise<void> {
  await page.getByLabel("Cost file").setInputFiles({ name, mimeType: "text/plain", buffer: Buffer.from(text) });
  await page.getByRole("button", { name: "Review file" }).click();
  await expect(page.getByRole("heading", { name: "Review the costs" })).toBeVisible();
}

async function importCosts(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Import costs" }).click();
  await expect(page.getByText("Costs imported.")).toBeVisible();
}

test("on a small screen, a finance admin imports a provider's bill and reconciles October", async ({
  page,
  member,
}) => {
  await page.setViewportSize({ width: 320, height: 900 });
  const base = await createBooks(member);
  const rowOf = (provider: string) =>
    page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: new RegExp(`^${provider}`) }) });
  const toOctober = async () => {
    await page.goto(`${base}/reconciliation`);
    await page.getByLabel("Month (UTC)").selectOption("2026-10");
    await page.getByRole("button", { name: "Show" }).click();
    await expect(page.getByRole("heading", { name: "October 2026" })).toBeVisible();
  };

  await enter(page, member, base);
  await toOctober();
  for (const provider of ["openai", "anthropic", "gcp"]) {
    await expect(rowOf(provider)).toContainText("Nothing reported");
  }

  await rowOf("openai").getByRole("link", { name: "Import costs" }).click();
  await expectWellMade(page);
  await review(page, { name: "openai.json", text: openAiCosts });
  await expect(page.getByText("Adds the totals of 2 days.")).toBeVisible();
  await importCosts(page);
  await expectWellMade(page);
  await page.getByRole("link", { name: "Reconcile October 2026" }).click();
  await expect(rowOf("openai")).toContainText("Invoice missing");
});
