import { readFile } from "node:fs/promises";
import { enter, expect, expectWellMade, signIn, test } from "./test.ts";

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
  await expectWellMade(page);
  await page.getByLabel(/^Type/).fill(newcomer.email);
  await page.getByRole("button", { name: "Delete account" }).click();
  await expect(page.getByRole("alert")).toContainText("Nothing was deleted");
  await page.getByLabel(/^Type/).fill(member.email);
  await page.getByRole("button", { name: "Delete account" }).click();
  await expect(page.getByRole("status")).toContainText("Your account was deleted");
  await signIn(page, member);
  await expect(page.getByRole("alert")).toContainText("don’t match");
});
