import type { Browser } from "playwright/test";
import { linkOfMail } from "./mailbox.ts";
import { expect, expectAccessible, expectFitsSmallScreens, type Person, signIn, test } from "./test.ts";

/** Another person with an account of their own, in a browser of their own. */
async function pageOf(browser: Browser, person: Person, link: string) {
  const { pathname, search } = new URL(link);
  const page = await (await browser.newContext()).newPage();
  await signIn(page, person, { at: `/login?${new URLSearchParams({ returnUrl: `${pathname}${search}` })}` });
  return page;
}

test("a workspace is founded, shared, handed over and deleted", async ({ page, browser, member, colleague }) => {
  await signIn(page, member, { at: "/login?returnUrl=/workspaces" });
  await page.getByLabel("Name").fill("Orbit");
  await page.getByRole("button", { name: "Create workspace" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Orbit" })).toBeVisible();

  await page.getByRole("link", { name: "Members" }).click();
  await page.getByLabel("Email").fill("not an address");
  await page.getByRole("button", { name: "Send invitation" }).click();
  await expect(page.getByRole("alert")).toContainText("Enter an email address");
  await page.getByLabel("Email").fill(colleague.email);
  await page.getByLabel("Role", { exact: true }).selectOption("member");
  await page.getByRole("button", { name: "Send invitation" }).click();
  await expect(page.getByText(`We sent an invitation to ${colleague.email}`)).toBeVisible();
  await expectAccessible(page);
  await expectFitsSmallScreens(page);

  const link = await linkOfMail(colleague.email, "Join Orbit on Gatehouse");
  const invited = await pageOf(browser, colleague, link);
  await expect(invited.getByRole("heading", { level: 1, name: "Join Orbit" })).toBeVisible();
  await expectAccessible(invited);
  await expectFitsSmallScreens(invited);
  await invited.getByRole("button", { name: "Join workspace" }).click();
  await expect(invited.getByRole("heading", { level: 1, name: "Orbit" })).toBeVisible();
  await invited.goto(link);
  await expect(invited.getByRole("heading", { level: 1 })).toHaveText("This invitation no longer works");

  await page.reload();
  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByLabel("Name").fill("Orbit two");
  await page.getByRole("button", { name: "Save name" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Orbit two" })).toBeVisible();
  await expectAccessible(page);
  await expectFitsSmallScreens(page);
  await page.getByRole("button", { name: "Hand over" }).click();
  await expect(page.getByText("has a new owner")).toBeVisible();

  await invited.goto("/workspaces");
  await invited.getByRole("link", { name: /Orbit two/ }).click();
  await invited.getByRole("link", { name: "Activity" }).click();
  await expect(invited.getByRole("main")).toContainText("changed the workspace Orbit two");
  await expectAccessible(invited);
  await expectFitsSmallScreens(invited);
  await invited.getByRole("link", { name: "Settings" }).click();
  await invited.getByLabel(/^Type/).fill("Orbit");
  await invited.getByRole("button", { name: "Delete workspace" }).click();
  await expect(invited.getByRole("alert")).toContainText("Nothing was deleted");
  await invited.getByLabel(/^Type/).fill("Orbit two");
  await invited.getByRole("button", { name: "Delete workspace" }).click();
  await expect(invited).toHaveURL(/\/workspaces$/);
  await expect(invited.getByRole("link", { name: /Orbit two/ })).toHaveCount(0);
});

test("an invitation for another email asks for that one", async ({ page, browser, member, colleague }) => {
  await signIn(page, member, { at: "/login?returnUrl=/workspaces" });
  await page.getByLabel("Name").fill("Private");
  await page.getByRole("button", { name: "Create workspace" }).click();
  await page.getByRole("link", { name: "Members" }).click();
  await page.getByLabel("Email").fill(`someone.else.${colleague.email}`);
  await page.getByRole("button", { name: "Send invitation" }).click();
  const link = await linkOfMail(`someone.else.${colleague.email}`, "Join Private on Gatehouse");
  const other = await pageOf(browser, colleague, link);
  await expect(other.getByRole("main")).toContainText("Sign in with that email to accept it");
  await expect(other.getByRole("button", { name: "Join workspace" })).toHaveCount(0);
});

test("members who may not manage see no forms, and leave by themselves", async ({
  page,
  browser,
  member,
  colleague,
}) => {
  await signIn(page, member, { at: "/login?returnUrl=/workspaces" });
  await page.getByLabel("Name").fill("Quiet");
  await page.getByRole("button", { name: "Create workspace" }).click();
  await page.getByRole("link", { name: "Members" }).click();
  await page.getByLabel("Email").fill(colleague.email);
  await page.getByLabel("Role", { exact: true }).selectOption("viewer");
  await page.getByRole("button", { name: "Send invitation" }).click();
  const link = await linkOfMail(colleague.email, "Join Quiet on Gatehouse");
  const viewer = await pageOf(browser, colleague, link);
  await viewer.getByRole("button", { name: "Join workspace" }).click();
  await viewer.getByRole("link", { name: "Members" }).click();
  await expect(viewer.getByRole("button", { name: "Send invitation" })).toHaveCount(0);
  await viewer.getByRole("link", { name: "Settings" }).click();
  await expect(viewer.getByRole("button", { name: "Delete workspace" })).toHaveCount(0);
  await expect(viewer.getByRole("link", { name: "Activity" })).toHaveCount(0);
  await viewer.getByRole("link", { name: "Members" }).click();
  await viewer.getByRole("button", { name: "Leave this workspace" }).click();
  await expect(viewer).toHaveURL(/\/workspaces$/);
});
