import OpenAI from "openai";
import { Client } from "pg";
import { readStack } from "../scripts/test/stack.ts";
import { turnDown } from "./confirm-card.ts";
import { enter, expect, expectWellMade, type Person, signIn, test } from "./test.ts";

const stack = readStack();

/** Approves a person's personal workspace for API keys, as an administrator would. @returns the workspace's id */
async function approveKeys({ email }: Person): Promise<string> {
  const database = new Client({ connectionString: stack.supabase.dbUrl });
  await database.connect();
  try {
    const { rows } = await database.query(
      `insert into ai.key_approvals (workspace_id)
       select w.id from public.workspaces w join auth.users u on u.id = w.personal_user_id where u.email = $1
       returning workspace_id`,
      [email],
    );
    return rows[0].workspace_id;
  } finally {
    await database.end();
  }
}

const askWith = async (apiKey: string) => {
  const client = new OpenAI({ baseURL: `${stack.ai}/v1`, apiKey, maxRetries: 0 });
  const models = await client.models.list();
  return models.data.length;
};

test("a key is created, shown once, used, rotated and revoked", async ({ page, member }) => {
  const workspaceId = await approveKeys(member);
  await enter(page, member, `/workspaces/${workspaceId}/ai/keys`);
  await expect(page.getByText("No API keys yet.")).toBeVisible();

  await page.getByRole("link", { name: "Create key" }).click();
  await page.getByText("More settings").click();
  await page.getByLabel("Requests per minute").fill("0");
  await page.getByLabel("Strict mode").check();
  await page.getByRole("button", { name: "Create key" }).click();
  await expect(page.getByRole("alert")).toContainText("Enter a name");
  await expect(page.getByRole("alert")).toContainText("at least 1");
  await expectWellMade(page);
  await expect(page.getByRole("alert")).toBeFocused();
  await page.getByLabel("Name").fill("Nightly report");
  await page.getByRole("button", { name: "Create key" }).click();
  await expect(page.getByRole("alert")).not.toContainText("Enter a name");
  await expect(page.getByRole("alert")).toBeFocused();
  await expect(page.getByLabel("Strict mode")).toBeChecked();
  await page.getByLabel("Requests per minute").fill("50");
  await page.getByRole("button", { name: "Create key" }).click();
  const card = page.getByRole("region", { name: "Your new key “Nightly report”" });
  const heading = card.getByRole("heading", { name: "Your new key “Nightly report”" });
  await expect(heading).toBeFocused();
  await expect(heading).toBeInViewport();
  const shown = page.getByRole("figure").filter({ hasText: "Key" }).first();
  await expect(shown).toBeInViewport();
  const first = (await shown.locator("code").textContent()) ?? "";
  expect(first).toMatch(/^ttr_ai_/);
  expect(await askWith(first)).toBeGreaterThan(0);
  await expect(page.getByRole("figure").filter({ hasText: "curl" })).toContainText('"model":"demo-chat"');

  await page.getByRole("link", { name: "I’ve copied it" }).click();
  await expect(page.getByRole("main")).toContainText("50 requests per minute · strict mode");
  await expect(page.getByRole("main")).not.toContainText(first);
  await expectWellMade(page);

  await expect(page.getByRole("row", { name: /Nightly report/ })).toContainText("Active");
  const revokesFirst = await page.getByRole("link", { name: "Revoke Nightly report" }).getAttribute("href");
  await page.getByRole("link", { name: "Edit Nightly report" }).click();
  await expectWellMade(page);
  await page.getByLabel("Requests per minute").fill("40");
  await page.getByRole("button", { name: "Save key" }).click();
  await expect(page.getByText("Key saved.")).toBeVisible();
  await expect(page.getByRole("main")).toContainText("40 requests per minute · strict mode");

  await page.getByRole("link", { name: "Rotate Nightly report" }).click();
  await expect(page.getByRole("heading", { name: "Rotate Nightly report" })).toBeVisible();
  await expectWellMade(page);
  await page.getByLabel(/^Now:/).check();
  await page.getByRole("button", { name: "Rotate key" }).click();
  await expect(page.getByRole("region", { name: "Your new key" })).toBeVisible();
  const second = (await page.getByRole("figure").first().locator("code").textContent()) ?? "";
  expect(second).not.toBe(first);
  await expect(askWith(first)).rejects.toThrow(/401/);
  expect(await askWith(second)).toBeGreaterThan(0);
  await page.getByRole("link", { name: "I’ve copied it" }).click();
  await expect(page.getByRole("row", { name: /Nightly report/ })).toHaveCount(1);
  await page.getByText("1 replaced key").click();
  await expect(page.getByRole("row", { name: /Nightly report/ }).getByRole("listitem")).toContainText("Revoked");

  await page.goto(revokesFirst ?? "");
  await expect(page.getByText("Nightly report had already stopped working. Nothing was changed.")).toBeVisible();
  expect(await askWith(second)).toBeGreaterThan(0);
  await page.getByRole("link", { name: "Revoke Nightly report" }).first().click();
  await expect(page.getByRole("region", { name: "Revoke Nightly report?" })).toBeFocused();
  await turnDown(page, "Revoke Nightly report?");
  expect(await askWith(second)).toBeGreaterThan(0);
  await page.getByRole("link", { name: "Revoke Nightly report" }).first().click();
  await page.getByRole("button", { name: "Revoke key" }).click();
  await expect(page.getByText("The key no longer works.")).toBeVisible();
  await expect(askWith(second)).rejects.toThrow(/401/);

  const file = await (await page.request.get(`${new URL(page.url()).pathname}.csv`)).text();
  expect(file.split("\r\n")[0]).toMatch(/^\ufeff?name,prefix,environment,created_at,/);
  expect(file).toContain(",revoked,");
  for (const secret of [first, second]) expect(file).not.toContain(secret);
});

test("a new key stays visible while another tab switches accounts, and disappears on sign-out", async ({
  context,
  page,
  member,
  colleague,
}) => {
  const workspaceId = await approveKeys(member);
  await enter(page, colleague);
  await signIn(page, member, { at: "/add-account" });
  await expect(page.getByRole("heading", { level: 1, name: "Home" })).toBeVisible();
  await page.goto(`/workspaces/${workspaceId}/ai/keys/new`);
  await page.getByLabel("Name").fill("Nightly report");
  await page.getByRole("button", { name: "Create key" }).click();
  const shown = page.getByRole("region", { name: "Your new key" });
  await expect(shown).toBeVisible();

  const other = await context.newPage();
  await other.goto("/");
  await other.getByRole("button", { name: "Account menu" }).click();
  await other.getByRole("button", { name: new RegExp(`^Switch to .*${colleague.email}`) }).click();
  await expect(page.getByText(`You’re signed in as ${colleague.email} in another tab.`)).toBeVisible();
  await expect(shown).toBeVisible();

  await other.getByRole("button", { name: "Account menu" }).click();
  await other.getByRole("button", { name: "Sign out of all accounts" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Sign in" })).toBeVisible();
});
