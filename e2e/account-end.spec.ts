import { readFile } from "node:fs/promises";
import { linkOfMail } from "./mailbox.ts";
import { enter, expect, expectAccessible, expectFitsSmallScreens, signIn, test } from "./test.ts";

test("an account's data is downloaded as one file", async ({ page, member }) => {
  await enter(page, member, "/settings/security");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Download your data" }).click(),
  ]);
  expect(download.suggestedFilename()).toMatch(/^gatehouse-account-\d{4}-\d\d-\d\d\.json$/);
  const document = JSON.parse(await readFile(await download.path(), "utf8"));
  expect(document).toMatchObject({ account: { email: member.email, hasPassword: true }, runs: [] });
  expect(document.sessions).toHaveLength(1);
});

test("an account is deleted only after its email is typed", async ({ page, newcomer, member }) => {
  await enter(page, member, "/settings/security");
  await page.getByRole("link", { name: "Delete account" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Delete account" })).toBeVisible();
  await expectAccessible(page);
  await expectFitsSmallScreens(page);
  await page.getByLabel(/^Type/).fill(newcomer.email);
  await page.getByRole("button", { name: "Delete account" }).click();
  await expect(page.getByRole("alert")).toContainText("Nothing was deleted");
  await page.getByLabel(/^Type/).fill(member.email);
  await page.getByRole("button", { name: "Delete account" }).click();
  await expect(page.getByRole("status")).toContainText("Your account was deleted");
  await signIn(page, member);
  await expect(page.getByRole("alert")).toContainText("don’t match");
});

test("the sole owner of a shared workspace must transfer that workspace, which the page names, before deleting their account", async ({
  page,
  browser,
  member,
  colleague,
}) => {
  await enter(page, member, "/workspaces");
  await page.getByLabel("Name").fill("Left behind");
  await page.getByRole("button", { name: "Create workspace" }).click();
  await page.getByRole("link", { name: "Members" }).click();
  await page.getByLabel("Email").fill(colleague.email);
  await page.getByRole("button", { name: "Send invitation" }).click();
  const { pathname, search } = new URL(await linkOfMail(colleague.email, "You’re invited to a workspace on Gatehouse"));
  const other = await (await browser.newContext()).newPage();
  await enter(other, colleague, `${pathname}${search}`);
  await other.getByRole("button", { name: "Join workspace" }).click();
  await expect(other.getByText("Workspace: Left behind")).toBeVisible();

  await page.goto("/settings/security/delete-account");
  await expect(page.getByRole("main")).toContainText("Left behind");
  await expect(page.getByRole("button", { name: "Delete account" })).toHaveCount(0);
  await expectAccessible(page);
  await page.getByRole("link", { name: /Transfer or delete workspace/ }).click();
  await page.getByRole("button", { name: "Transfer", exact: true }).click();
  await page.getByRole("button", { name: /^Transfer to/ }).click();
  await expect(page.getByText("Ownership transferred.")).toBeVisible();
  await page.goto("/settings/security/delete-account");
  await page.getByLabel(/^Type/).fill(member.email);
  await page.getByRole("button", { name: "Delete account" }).click();
  await expect(page.getByRole("status")).toContainText("Your account was deleted");
  await other.goto("/workspaces");
  await expect(other.getByRole("link", { name: /Left behind/ })).toBeVisible();
});
