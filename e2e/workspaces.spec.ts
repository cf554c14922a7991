import type { Browser } from "playwright/test";
import { linkOfMail } from "./mailbox.ts";
import { enter, expect, expectFitsSmallScreens, expectWellMade, type Person, signIn, test } from "./test.ts";

/** Opens a page as another person in a separate browser. */
async function pageOf(browser: Browser, person: Person, link: string) {
  const { pathname, search } = new URL(link);
  const page = await (await browser.newContext()).newPage();
  await signIn(page, person, { at: `/login?${new URLSearchParams({ returnUrl: `${pathname}${search}` })}` });
  return page;
}

test("a workspace is created, shared, transferred and deleted", async ({ page, browser, member, colleague }) => {
  await enter(page, member, "/workspaces");
  await page.getByLabel("Name").fill("Orbit");
  await page.getByRole("button", { name: "Create workspace" }).click();
  await expect(page.getByText("Workspace: Orbit", { exact: true })).toBeVisible();

  await page.getByRole("link", { name: "Members" }).click();
  await page.getByLabel("Email").fill("not-an-address");
  await page.getByRole("button", { name: "Send invitations" }).click();
  await expect(page.getByRole("alert")).toContainText("Enter an email address");
  // Playwright appends to an email field in Firefox.
  await page.getByLabel("Email").clear();
  await page.getByLabel("Email").fill(colleague.email);
  await page.getByRole("radio", { name: "Member", exact: true }).check();
  await page.getByRole("button", { name: "Send invitations" }).click();
  await expect(page.getByText(`We sent an invitation to ${colleague.email}`)).toBeVisible();
  await expect(page.getByLabel("Email")).toHaveValue("");
  await expectWellMade(page);

  const link = await linkOfMail(colleague.email, "You’re invited to a workspace on Gatehouse");
  const invited = await pageOf(browser, colleague, link);
  await expect(invited.getByRole("heading", { level: 1, name: "Join Orbit" })).toBeVisible();
  await expectWellMade(invited);
  await invited.getByRole("button", { name: "Join workspace" }).click();
  await expect(invited.getByText("Workspace: Orbit", { exact: true })).toBeVisible();
  await invited.goto(link);
  await expect(invited.getByRole("heading", { level: 1 })).toHaveText("This invitation no longer works");

  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByLabel("Name").fill("Orbit two");
  await page.getByRole("button", { name: "Save name" }).click();
  await expect(page.getByText("Workspace: Orbit two", { exact: true })).toBeVisible();
  await expectWellMade(page);
  await page.getByRole("button", { name: "Transfer", exact: true }).click();
  await expect(page.getByRole("heading", { name: /^Transfer Orbit two to .+\?$/ })).toBeVisible();
  await page.getByRole("button", { name: /^Transfer to/ }).click();
  await expect(page.getByText("Ownership transferred.")).toBeVisible();

  await invited.goto("/workspaces");
  await invited.getByRole("link", { name: /Orbit two/ }).click();
  await invited.getByRole("link", { name: "Activity" }).click();
  await expect(invited.getByRole("main")).toContainText("renamed the workspace to “Orbit two”");
  await expectWellMade(invited);
  await invited.getByRole("link", { name: "Settings" }).click();
  await invited.getByLabel(/^Type/).fill("Orbit");
  await invited.getByRole("button", { name: "Delete workspace" }).click();
  await expect(invited.getByRole("alert")).toContainText("Nothing was deleted");
  await invited.getByLabel(/^Type/).fill("Orbit two");
  await invited.getByRole("button", { name: "Delete workspace" }).click();
  await expect(invited).toHaveURL(/\/workspaces$/);
  await expect(invited.getByRole("link", { name: /Orbit two/ })).toHaveCount(0);
});

test("a long workspace name without spaces fits small screens, including in a form label", async ({ page, member }) => {
  const name = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft";
  await enter(page, member, "/workspaces");
  await page.getByLabel("Name").fill(name);
  await page.getByRole("button", { name: "Create workspace" }).click();
  await page.getByRole("link", { name: "Settings" }).click();
  await expect(page.getByLabel(`Type “${name}” to confirm`)).toBeVisible();
  await expectFitsSmallScreens(page);
});

test("a rejected role is explained in a focused summary, and the next one is created", async ({ page, member }) => {
  await enter(page, member, "/workspaces");
  await page.getByLabel("Name").fill("Roles");
  await page.getByRole("button", { name: "Create workspace" }).click();
  await page.getByRole("link", { name: "Roles", exact: true }).click();
  await page.getByLabel("Name", { exact: true }).fill("Owner");
  await page.getByRole("button", { name: "Create role" }).click();
  await expect(page.getByRole("alert")).toBeFocused();
  await expectWellMade(page);
  await page.getByLabel("Name", { exact: true }).fill("Key keepers");
  await page.getByRole("button", { name: "Create role" }).click();
  await expect(page.getByRole("status")).toContainText("Role created");
});
