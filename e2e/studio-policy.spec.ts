import { query } from "../scripts/test/people.ts";
import { enter, expect, expectWellMade, type Person, test } from "./test.ts";

/** Creates ledger entries in a person's personal workspace. @returns the workspace's id */
async function workspaceOf({ email }: Person, entries: number): Promise<string> {
  const [workspace] = await query<{ id: string; user_id: string }>(
    "select w.id, u.id as user_id from public.workspaces w join auth.users u on u.id = w.personal_user_id where u.email = $1",
    [email],
  );
  await query(
    "select ai.grant_credits('member', $1, 10.00000001, 'Entry ' || i || ', as a person might explain it') from generate_series(1, $2::int) i",
    [workspace?.user_id, entries],
  );
  return workspace?.id ?? "";
}

test("policy, budgets and credits are edited and displayed", async ({ page, member }) => {
  const workspaceId = await workspaceOf(member, 60);
  await enter(page, member, `/workspaces/${workspaceId}/ai/policy`);
  await expect(page.getByRole("heading", { level: 1, name: "AI policy" })).toBeVisible();

  await page.getByLabel("Requests per minute").fill("none");
  await page.getByLabel("Days to keep prompts and answers").fill("366");
  await page.getByRole("button", { name: "Save policy" }).click();
  await expect(page.getByRole("alert")).toContainText("Enter requests per minute as a whole number of at least 1");
  await expect(page.getByLabel("Days to keep prompts and answers")).toHaveValue("366");
  await expectWellMade(page);
  await page.getByLabel("Requests per minute").fill("30");
  await page.getByLabel("Days to keep prompts and answers").fill("7");
  const denied = page.getByLabel("Deny Demo chat", { exact: true });
  await denied.check();
  const allowed = page.getByRole("checkbox", { name: /^Demo chat demo-chat/, includeHidden: true });
  await expect(allowed).toHaveCount(1);
  await expect(allowed).toBeHidden();
  await page.getByLabel("Only selected models").check();
  await expect(allowed).toBeVisible();
  await page.getByLabel("All models in your plan").check();
  await page.getByRole("button", { name: "Save policy" }).click();
  await expect(page.getByText("Policy saved.")).toBeVisible();
  await expect(denied).toBeChecked();

  await page.getByRole("link", { name: "Budgets" }).click();
  await page
    .getByRole("link", { name: /^Set budget of/ })
    .first()
    .click();
  await page.getByLabel(/^Budget of/).fill("12.5");
  await page.getByRole("button", { name: "Save budget" }).click();
  await expect(page.getByRole("main")).toContainText("Budget saved: $12.50 per month for");
  await query("update ai.budgets set spent_usd = 10.25 where workspace_id = $1", [workspaceId]);
  await page.reload();
  await expect(page.getByRole("main")).toContainText("82% spent");
  await page.getByRole("link", { name: /^Change budget of/ }).click();
  await expect(page.getByLabel(/^Monthly budget of/)).toHaveValue("12.5");
  await expectWellMade(page);

  await page.getByRole("link", { name: "Credits" }).click();
  await expect(page.getByText("600.00", { exact: true }).first()).toBeVisible();
  await expectWellMade(page);
  const download = page.waitForEvent("download");
  await page.getByRole("link", { name: "CSV" }).click();
  expect((await download).suggestedFilename()).toMatch(/^credits-.*\.csv$/);
});
