import { readFile } from "node:fs/promises";
import { formatDay } from "../remix-app/http/date-text.ts";
import { query } from "../scripts/test/people.ts";
import { enter, expect, expectWellMade, type Person, test } from "./test.ts";

/** Creates one run per day in a person's personal workspace. @returns the workspace's id */
async function workspaceOf({ email }: Person, days: number): Promise<string> {
  const [workspace] = await query<{ id: string }>(
    "select w.id from public.workspaces w join auth.users u on u.id = w.personal_user_id where u.email = $1",
    [email],
  );
  await query(
    `insert into ai.runs (
       id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id, routes, route,
       markup, status, usage_source, input_tokens, output_tokens, cost_usd, billed_credits, reserved_usd,
       reserved_credits, latency_ms, settled_at
     )
     select
       ai.run_id(moment), moment, $1, 'session', 'interactive', 'chat', 'test-' || n, 'a-model-with-a-rather-long-name',
       '[{"position": 1, "provider": "demo", "model": "m", "prices": []}]', 1, 1,
       case when n % 7 = 3 then 'failed' else 'succeeded' end, 'provider', 1234, 567, 0.0042 * (1 + n % 5), 1.5, 0, 0,
       100 * (1 + n % 9), moment
     from (select n, now() - n * interval '24 hours' as moment from generate_series(0, $2::integer - 1) n) m`,
    [workspace?.id, days],
  );
  return workspace?.id ?? "";
}

test("the studio shows usage for the date range in the URL, with and without JavaScript", async ({
  page,
  browser,
  member,
}) => {
  const workspaceId = await workspaceOf(member, 60);
  await enter(page, member, `/workspaces/${workspaceId}/ai`);
  await expect(page.getByRole("heading", { level: 1, name: "Usage" })).toBeVisible();
  await expect(page.getByRole("img", { name: /Spend by day/ })).toBeVisible();
  await expect(page.getByRole("table", { name: "Usage by day" }).getByRole("row")).toHaveCount(31);
  await expectWellMade(page);

  await page.getByRole("link", { name: "7 days" }).click();
  await page.getByRole("link", { name: "Model", exact: true }).click();
  await page.getByRole("link", { name: "Requests" }).click();
  expect(new URL(page.url()).search).toBe("?range=7d&by=model&show=requests");
  await expect(page.getByRole("figure")).toContainText("a-model-wit…er-long-name 1");

  const plain = await (
    await browser.newContext({ javaScriptEnabled: false, storageState: await page.context().storageState() })
  ).newPage();
  await plain.goto(page.url());
  await plain.getByText("Custom range").click();
  const lastWeek = new Date(Date.now() - 6 * 24 * 60 * 60 * 1000).toISOString().slice(0, 10);
  await plain.getByLabel("First day").fill(lastWeek);
  await plain.getByLabel("Last day").fill(lastWeek);
  await plain.getByRole("button", { name: "Show" }).click();
  await expect(plain.getByRole("table", { name: "Usage by model" })).toContainText("a-model-with-a-rather-long-name");
  await plain.getByRole("link", { name: "Day", exact: true }).click();
  const [file] = await Promise.all([plain.waitForEvent("download"), plain.getByRole("link", { name: "CSV" }).click()]);
  expect(file.suggestedFilename()).toMatch(/^usage-by-day-\d{4}-\d\d-\d\d-\d{4}-\d\d-\d\d\.csv$/);
  expect(await readFile(await file.path(), "utf8")).toMatch(new RegExp(`^day,.*\r\n${lastWeek},0.00`));
  const byDay = plain.getByRole("table", { name: "Usage by day" });
  await byDay.getByRole("link", { name: formatDay(lastWeek) }).click();
  await expect(plain.getByRole("table", { name: "Runs" }).getByRole("row")).toHaveCount(2);

  await page.getByRole("navigation", { name: "Workspace" }).getByRole("link", { name: "Runs" }).click();
  await expect(page.getByRole("table", { name: "Runs" }).getByRole("row")).toHaveCount(51);
  await expectWellMade(page);
  await page.getByRole("link", { name: "Older runs" }).click();
  await expect(page.getByRole("table", { name: "Runs" }).getByRole("row")).toHaveCount(11);
  await page.getByLabel("Status").selectOption("failed");
  await page.getByRole("button", { name: "Filter" }).click();
  const rows = page.getByRole("table", { name: "Runs" }).getByRole("row");
  await expect(page.getByRole("link", { name: "30 days" })).toHaveAttribute("aria-current", "true");
  await expect(rows).toHaveCount(5);
  await page.getByRole("link", { name: "All time" }).click();
  await expect(page.getByRole("link", { name: "All time" })).toHaveAttribute("aria-current", "true");
  await expect(rows).toHaveCount(10);

  await page.getByRole("navigation", { name: "Sort by" }).getByRole("link", { name: "Latency" }).click();
  await expect(rows.nth(1)).toContainText("900 ms");
  await expect(rows.last()).toContainText("100 ms");
  await expect(page.getByLabel("Status")).toHaveValue("failed");
  await rows.nth(1).getByRole("link").click();
  await expect(page.getByRole("heading", { level: 1, name: "Run" })).toBeVisible();
  await expect(page.getByRole("link", { name: "Previous" })).toHaveCount(0);
  await expectWellMade(page);
  for (let step = 0; step < 8; step += 1) await page.getByRole("link", { name: "Next" }).click();
  await expect(page.getByRole("link", { name: "Next" })).toHaveCount(0);
  await expect(page.locator("dd", { hasText: "100 ms" }).first()).toBeVisible();
  await page.getByRole("link", { name: "All runs" }).click();
  await expect(rows).toHaveCount(10);
  await expect(page.getByLabel("Status")).toHaveValue("failed");
});

test("a list of runs offers runs that began after it was sent, and a run opens in the playground", async ({
  page,
  member,
}) => {
  const workspaceId = await workspaceOf(member, 2);
  await page.clock.install();
  await enter(page, member, `/workspaces/${workspaceId}/ai/runs`);
  const rows = page.getByRole("table", { name: "Runs" }).getByRole("row");
  await expect(rows).toHaveCount(3);
  await workspaceOf(member, 3);
  await page.clock.runFor(11_000);
  await page.getByRole("status").getByRole("link", { name: "1 new run" }).click();
  await expect(rows).toHaveCount(6);

  await rows.nth(1).getByRole("link").click();
  await expect(page.locator("figure").filter({ hasText: "curl" })).toContainText(
    '"model": "a-model-with-a-rather-long-name"',
  );
  await page.getByRole("link", { name: "Open in the playground" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Playground" })).toBeVisible();
});

test("refused calls have a filter and a page, and are found by request id without JavaScript", async ({
  page,
  browser,
  member,
}) => {
  const workspaceId = await workspaceOf(member, 1);
  await query(
    `insert into ai.refused_calls (
       id, created_at, workspace_id, credential_source, feature, request_id, model_id, endpoint, http_status, error_code,
       details
     )
     select ai.run_id(now()), now(), $1, 'session', 'chat', 'test-0', 'demo-chat', '/v1/chat/completions', 402,
       'budget_exceeded', '{}'`,
    [workspaceId],
  );
  await enter(page, member, `/workspaces/${workspaceId}/ai/runs`);
  const plain = await (
    await browser.newContext({ javaScriptEnabled: false, storageState: await page.context().storageState() })
  ).newPage();
  await plain.goto(page.url());
  await plain.getByLabel("Request ID").fill("test-0");
  await plain.getByRole("button", { name: "Filter" }).click();
  await expect(plain.getByRole("table", { name: "Runs" }).getByRole("row")).toHaveCount(2);
  await expect(plain.getByRole("table", { name: "Refused calls" }).getByRole("row")).toHaveCount(2);

  await page.getByLabel("Status").selectOption("refused");
  await page.getByRole("button", { name: "Filter" }).click();
  await expectWellMade(page);
  await page.getByRole("table", { name: "Refused calls" }).getByRole("link").click();
  await expect(page.getByRole("heading", { level: 1, name: "Refused call" })).toBeVisible();
  await expect(page.getByRole("status").getByRole("link", { name: "Open budgets" })).toHaveAttribute(
    "href",
    `/workspaces/${workspaceId}/ai/budgets`,
  );
  await expectWellMade(page);
  await page.getByRole("link", { name: "All runs" }).click();
  await expect(page.getByLabel("Status")).toHaveValue("refused");
});
