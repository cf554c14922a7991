import type { Page } from "playwright/test";
import { createApp } from "../scripts/test/apps.ts";
import { deletePerson, query } from "../scripts/test/people.ts";
import { enterConsole } from "./console.ts";
import { chromiumOnly } from "./firefox.ts";
import { enter, expect, expectWellMade, type Person, test } from "./test.ts";

const wide = { width: 1024, height: 800 };
const narrow = { width: 1023, height: 800 };
const phone = { width: 320, height: 640 };

const sections = (page: Page) => page.getByRole("navigation", { name: "Workspace" });
const heading = (page: Page, name: string) => page.getByRole("heading", { level: 1, name, exact: true });
const menuButton = (page: Page) => page.getByRole("button", { name: /^Menu of / });

async function ownWorkspace({ email }: Person): Promise<string> {
  const [row] = await query<{ id: string }>(
    "select w.id from public.workspaces w join auth.users u on u.id = w.personal_user_id where u.email = $1",
    [email],
  );
  return row?.id ?? "";
}

async function foundWorkspace(page: Page, name: string): Promise<void> {
  await page.goto("/workspaces");
  await page.getByLabel("Name").fill(name);
  await page.getByRole("button", { name: "Create workspace" }).click();
  await expect(page.getByText(`Workspace: ${name}`)).toBeVisible();
}

async function expectEntries(page: Page, entries: Record<string, string[]>): Promise<void> {
  for (const [group, labels] of Object.entries(entries)) {
    await expect(sections(page).getByRole("list", { name: group }).getByRole("link")).toHaveText(labels);
  }
}

test("from 1024 px, the sidebar groups a workspace's pages, and each page's name is its heading", async ({
  page,
  member,
}) => {
  await page.setViewportSize(wide);
  await enter(page, member, `/workspaces/${await ownWorkspace(member)}`);
  await expect(heading(page, "Overview")).toBeVisible();
  await expect(menuButton(page)).toBeHidden();
  await expectEntries(page, {
    Build: ["Models", "Playground", "API keys", "Runs"],
    Spend: ["Usage", "Budgets", "Task limits", "Credits"],
    Manage: ["Members", "Roles", "Service accounts", "AI policy", "Activity", "Settings"],
  });
  await expect(sections(page).getByRole("link", { name: "Overview" })).toHaveCount(1);
  for (const name of await sections(page).getByRole("link").allTextContents()) {
    await sections(page).getByRole("link", { name, exact: true }).click();
    await expect(heading(page, name)).toBeVisible();
    await expect(sections(page).locator("[aria-current=page]")).toHaveText(name);
  }
  await page.setViewportSize(narrow);
  await expect(sections(page)).toBeHidden();
  await expect(menuButton(page)).toBeVisible();
});

test("the sidebar lists the cost book on its own pages, and everywhere once an app is linked", async ({
  page,
  member,
}) => {
  await page.setViewportSize(wide);
  const workspaceId = await ownWorkspace(member);
  const withBook = {
    Spend: ["Usage", "Budgets", "Task limits", "Credits", "Provider costs", "Invoices", "Reconciliation"],
  };
  await enter(page, member, `/workspaces/${workspaceId}/ai/invoices`);
  await expectEntries(page, withBook);
  await expect(sections(page).locator("[aria-current=page]")).toHaveText("Invoices");
  await page.goto(`/workspaces/${workspaceId}/ai`);
  await expectEntries(page, { Spend: ["Usage", "Budgets", "Task limits", "Credits"] });
  await createApp({ kind: "external", scopes: ["workspace:session", "ai:use"], workspaceId });
  await page.reload();
  await expectEntries(page, withBook);
});

test("a long workspace name ends after two lines, and its tooltip has all of it", async ({ page, member }) => {
  await page.setViewportSize(wide);
  await enter(page, member);
  const name = "Interdepartmental ".repeat(6).slice(0, 80).trim();
  await foundWorkspace(page, name);
  const shown = sections(page).getByTitle(name).first();
  const { height, lineHeight, padding } = await shown.evaluate((element) => {
    const { lineHeight, paddingBlockStart, paddingBlockEnd } = getComputedStyle(element);
    return { height: element.clientHeight, lineHeight, padding: [paddingBlockStart, paddingBlockEnd] };
  });
  expect({ height, padding }).toEqual({ height: 2 * Number.parseFloat(lineHeight), padding: ["0px", "0px"] });
});

test("the sidebar and its switcher work with the keyboard", async ({ page, member }) => {
  await page.setViewportSize(wide);
  await enter(page, member);
  await foundWorkspace(page, "Orbit");
  await page.reload();
  const switcher = sections(page).getByText("Workspace: Orbit");
  await page.getByRole("button", { name: "Account menu" }).focus();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  await expect(sections(page).getByRole("list", { name: "Other workspaces" }).getByRole("link").first()).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(sections(page).getByText(/^Workspace: .*'s workspace$/)).toBeVisible();
  await expect(switcher).toHaveCount(0);
  await sections(page).getByRole("link", { name: "Members" }).press("Enter");
  await expect(heading(page, "Members")).toBeVisible();
});

for (const javaScriptEnabled of [true, false]) {
  const options = javaScriptEnabled ? {} : chromiumOnly.noScript;
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", options, () => {
    test.use({ javaScriptEnabled, viewport: phone });

    test("the navigation menu opens, closes and works with the keyboard on small screens", async ({ page, member }) => {
      await enter(page, member, `/workspaces/${await ownWorkspace(member)}/members`);
      await expect(sections(page)).toBeHidden();
      await menuButton(page).focus();
      await page.keyboard.press("Enter");
      await expect(sections(page)).toBeVisible();
      await page.keyboard.press("Tab");
      // Firefox also focuses what scrolls.
      if (await sections(page).evaluate((menu) => menu === document.activeElement)) await page.keyboard.press("Tab");
      await expect(page.getByRole("button", { name: "Close menu" })).toBeFocused();
      await page.keyboard.press("Escape");
      await expect(sections(page)).toBeHidden();
      await expect(menuButton(page)).toBeFocused();

      await page.keyboard.press("Enter");
      await page.getByRole("button", { name: "Close menu" }).press("Enter");
      await expect(sections(page)).toBeHidden();

      await menuButton(page).press("Enter");
      await sections(page).getByRole("link", { name: "Runs" }).press("Enter");
      await expect(heading(page, "Runs")).toBeVisible();
      await expect(sections(page)).toBeHidden();
    });
  });
}

test("the open menu is accessible, fits small screens, and closes on a click elsewhere", async ({ page, member }) => {
  await page.setViewportSize(phone);
  await enter(page, member, `/workspaces/${await ownWorkspace(member)}`);
  await menuButton(page).click();
  await expectWellMade(page);
  await page.mouse.click(310, 400);
  await expect(sections(page)).toBeHidden();
});

test("the open menu becomes the sidebar when the window grows to 1024 px", async ({ page, member }) => {
  await page.setViewportSize(wide);
  await enter(page, member, `/workspaces/${await ownWorkspace(member)}`);
  const { x, y, width } = (await sections(page).boundingBox()) ?? {};
  await page.setViewportSize(narrow);
  await menuButton(page).click();
  await page.setViewportSize(wide);
  await expect(sections(page)).toBeVisible();
  expect(await sections(page).boundingBox()).toMatchObject({ x, y, width });
  await sections(page).getByRole("link", { name: "Members" }).click();
  await expect(heading(page, "Members")).toBeVisible();
});

test("members see only the navigation entries that their role allows, and an Overview page without usage data", async ({
  page,
  member,
  colleague,
}) => {
  await enter(page, member);
  await foundWorkspace(page, "Closed");
  const id = new URL(page.url()).pathname.split("/").at(-1) ?? "";
  await query(
    `with role as (
       insert into public.workspace_roles (workspace_id, name, permissions) values ($1, 'Guest', '{}') returning id
     )
     insert into public.workspace_members (workspace_id, user_id, role_id)
     select $1, u.id, role.id from auth.users u, role where u.email = $2`,
    [id, colleague.email],
  );
  await page.context().clearCookies();
  await enter(page, colleague, `/workspaces/${id}`);
  await expect(heading(page, "Overview")).toBeVisible();
  await expect(sections(page).getByRole("link")).toHaveText(["Overview", "Members", "Roles", "Settings"]);
  await expect(page.getByRole("main")).toContainText("Guest");
});

test("admins see a link to the console in the header, and the console's pages are grouped in the sidebar", async ({
  page,
  member,
  context,
}) => {
  await enter(page, member);
  await expect(page.getByRole("link", { name: "Docs" })).toHaveAttribute("href", "/docs");
  await expect(page.getByRole("link", { name: "Admin console" })).toHaveCount(0);
  await context.clearCookies();
  const admin = await enterConsole(context);
  await page.goto("/");
  await page.getByRole("link", { name: "Admin console" }).press("Enter");
  await expect(heading(page, "Overview")).toBeVisible();
  const menu = page.getByRole("navigation", { name: "Console" });
  await expect(menu.locator("[aria-current=page]")).toHaveText("Overview");
  const people = menu.getByRole("list", { name: "People" });
  // Accounts and Recovery may have a count.
  const entries = [/^Accounts/, "Invitations", /^Recovery/, "Blocked IP addresses"];
  await expect(people.getByRole("link")).toHaveText(entries);
  const money = menu.getByRole("list", { name: "Money" });
  await expect(money.getByRole("link")).toHaveText(["Spending", /^Books/]);

  await page.setViewportSize(phone);
  await page.getByRole("button", { name: "Account menu" }).press("Enter");
  await expect(page.getByRole("link", { name: "Docs" })).toBeVisible();
  await expect(page.getByRole("link", { name: "Admin console" })).toBeVisible();
  await deletePerson(admin);
});

test("“/” focuses the page's search field, but types a slash in other fields", async ({ page, context }) => {
  const admin = await enterConsole(context);
  await page.goto("/admin/accounts?q=no-match");
  const search = page.getByRole("searchbox", { name: "Email, name or ID" });
  await expect(search).toHaveAttribute("aria-keyshortcuts", "/");
  await page.keyboard.press("/");
  await expect(search).toBeFocused();
  await page.keyboard.type("a/b");
  await expect(search).toHaveValue("a/b");
  await search.blur();
  await page.keyboard.press("Control+/");
  await expect(search).not.toBeFocused();

  await page.goto("/admin/audit");
  const actor = page.getByRole("textbox").first();
  await actor.press("/");
  await expect(actor).toBeFocused();
  await expect(actor).toHaveValue("/");
  await deletePerson(admin);
});

test("the profile settings turn the “/” shortcut off and on for this browser", async ({ page, member }) => {
  const members = `/workspaces/${await ownWorkspace(member)}/members?q=no-match`;
  await enter(page, member, "/settings/profile");
  await page.getByRole("button", { name: "Turn off" }).press("Enter");
  await expect(page.getByRole("button", { name: "Turn on" })).toBeFocused();
  await page.goto(members);
  await page.keyboard.press("/");
  const search = page.getByRole("searchbox", { name: "Find a member" });
  await expect(search).not.toBeFocused();
  await page.goto("/settings/profile");
  await page.getByRole("button", { name: "Turn on" }).click();
  await page.goto(members);
  await page.keyboard.press("/");
  await expect(search).toBeFocused();
});

test("Copy works on every page, however the page was reached", async ({ page, context, member }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  const workspace = `/workspaces/${await ownWorkspace(member)}`;
  await enter(page, member, `${workspace}/members`);
  await sections(page).getByRole("link", { name: "Settings" }).click();
  await page.getByRole("button", { name: "Copy Workspace ID" }).click();
  await expect(page.getByRole("button", { name: "Copied Workspace ID" })).toBeVisible();
  expect(await copied()).toBe(workspace.split("/").at(-1));
  await page.evaluate(() => {
    navigator.clipboard.writeText = () => Promise.reject(new DOMException("Not now", "NotAllowedError"));
  });
  await page.getByRole("button", { name: /^(Copy|Copied) Workspace ID$/ }).click();
  await expect(page.getByRole("button", { name: "Couldn’t copy: select it Workspace ID" })).toBeVisible();
  await sections(page).getByRole("link", { name: "Playground" }).click();
  await page.locator("summary", { hasText: "curl" }).click();
  await page.getByLabel("Message").fill("What the request says");
  await expect(page.locator("details", { hasText: "curl" })).toContainText("What the request says");
  await page.getByRole("button", { name: "Copy curl" }).click();
  await expect.poll(copied).toContain("What the request says");
});
