import type { Page } from "playwright/test";
import { codeOf } from "../remix-app/testing/authenticator-app.ts";
import { deletePerson } from "../scripts/test/people.ts";
import { readStack } from "../scripts/test/stack.ts";
import { enterConsole } from "./console.ts";
import { expect, expectWellMade, type Person, signIn, test } from "./test.ts";

const stack = readStack();

const heading = (page: Page, name: string) => page.getByRole("heading", { name, level: 1 });
const press = (page: Page, name: string) => page.getByRole("button", { name, exact: true }).click();

async function findAccount(page: Page, { email }: Person): Promise<void> {
  await page.goto("/admin/accounts");
  await page.getByLabel("Email, name or ID").fill(email);
  await press(page, "Search");
  await page.getByRole("link", { name: email }).click();
  await expect(heading(page, email)).toBeVisible();
}

async function confirm(page: Page, { text, button }: { text: string; button: string }): Promise<void> {
  await page.getByLabel("Reason").fill("Called, and proved who they are");
  await page.getByLabel(/to confirm$/).fill(text);
  await press(page, button);
}

test("the demo admin signs in with a code, finds an account and must confirm each action on the account", async ({
  page,
  member,
}) => {
  const admin = stack.users.find(({ role }) => role === "admin");
  if (!admin?.totpSecret) throw new Error("the demo admin has no authenticator of ours");
  await signIn(page, admin, { at: "/login?returnUrl=/" });
  await page.getByLabel("6-digit code").fill(codeOf({ secret: admin.totpSecret }));
  await press(page, "Verify");
  await page.getByRole("link", { name: "Admin console" }).click();

  await findAccount(page, member);
  await expectWellMade(page);
  await page.getByRole("link", { name: "Require MFA" }).click();
  await expect(page.getByRole("list", { name: "What will happen" })).toContainText(
    `${member.email} must use MFA everywhere`,
  );
  await confirm(page, { text: "yes", button: "Require MFA" });
  await expect(page.getByRole("alert")).toContainText("Nothing was changed");
  await expect(page.getByLabel("Reason")).toHaveValue("Called, and proved who they are");
  await expectWellMade(page);
  await page.getByRole("link", { name: "Cancel" }).click();
  await expect(page.getByText("MFA is optional for this account.")).toBeVisible();

  await findAccount(page, admin);
  await expect(page.getByText("You can’t change your own account here. Ask another admin.")).toBeVisible();
  await expect(page.getByRole("link", { name: "Reset authenticators" })).toHaveCount(0);
});

test("every page of the console is accessible and fits small screens", async ({ page, context, member }) => {
  const admin = await enterConsole(context);
  const recovery = new URLSearchParams({ email: member.email });
  for (const path of [
    "/admin",
    `/admin/accounts?q=${admin.id}`,
    "/admin/address-blocks",
    "/admin/approvals",
    `/admin/recovery?${recovery}`,
    `/admin/recovery/new?${recovery}`,
    "/admin/apps/partner",
    "/admin/apps/partner/edit",
    `/admin/workspaces?q=${stack.workspaceId}`,
    "/admin/models",
    "/admin/models/edit?model=demo-agent",
    "/admin/providers",
    "/admin/audit?action=model.",
  ]) {
    await page.goto(path);
    await expect(page.getByRole("navigation", { name: "Console" })).toBeVisible();
    await expectWellMade(page);
  }
  await page.goto("/admin/models?model=demo-chat");
  await page
    .getByRole("link", { name: /^Add price/ })
    .first()
    .click();
  await expect(heading(page, "Add price")).toBeVisible();
  await expectWellMade(page);
  await deletePerson(admin);
});
