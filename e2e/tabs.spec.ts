import type { Page } from "playwright/test";
import { query } from "../scripts/test/people.ts";
import { enter, expect, type Person, signIn, test } from "./test.ts";

test("a tab that waits at the sign-in page opens its destination when another tab signs in", async ({
  context,
  page,
  member,
}) => {
  const waiting = await context.newPage();
  await waiting.goto("/login?returnUrl=/workspaces");
  await signIn(page, member);
  await expect(waiting.getByRole("heading", { level: 1, name: "Workspaces" })).toBeVisible();
});

test("when another tab signs out, a tab goes to the sign-in page and keeps its destination", async ({
  context,
  page,
  member,
}) => {
  await enter(page, member, "/workspaces");
  const other = await context.newPage();
  await other.goto("/");
  await other.getByRole("button", { name: "Account menu" }).click();
  await other.getByRole("button", { name: "Sign out" }).click();
  await expect(page).toHaveURL(/\/login\?returnUrl=%2Fworkspaces/);
});

test("typed text stays when another tab signs out, and a notice says why the page changed", async ({
  context,
  page,
  member,
}) => {
  await enter(page, member, "/workspaces");
  await page.getByLabel("Name").fill("Half typed");
  const other = await context.newPage();
  await other.goto("/");
  await other.getByRole("button", { name: "Account menu" }).click();
  await other.getByRole("button", { name: "Sign out" }).click();
  await expect(page.getByText("You signed out in another tab.")).toBeVisible();
  await expect(page.getByLabel("Name")).toHaveValue("Half typed");
  await page.getByRole("button", { name: "Reload this page" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Sign in" })).toBeVisible();
});

test("a checkbox stays checked when another tab signs out, even if no text was typed", async ({
  context,
  page,
  member,
}) => {
  await enter(page, member, "/workspaces");
  await page.getByRole("link", { name: /Personal/ }).click();
  await page.getByRole("link", { name: "Roles", exact: true }).click();
  await page.getByLabel("Manage API keys").check();
  const other = await context.newPage();
  await other.goto("/");
  await other.getByRole("button", { name: "Account menu" }).click();
  await other.getByRole("button", { name: "Sign out" }).click();
  await expect(page.getByText("You signed out in another tab.")).toBeVisible();
  await expect(page.getByLabel("Manage API keys")).toBeChecked();
});

/** Adds an account, which becomes active. @returns a function that switches accounts in another tab */
async function addAndSwitch(page: Page, added: Person): Promise<(person: Person) => Promise<void>> {
  await signIn(page, added, { at: "/add-account" });
  const other = await page.context().newPage();
  await other.goto("/");
  return async ({ email }) => {
    await other.getByRole("button", { name: "Account menu" }).click();
    await other.getByRole("button", { name: new RegExp(`^Switch to .*${email}`) }).click();
  };
}

test("a rejected form is not sent again when its account becomes active again", async ({ page, member, colleague }) => {
  await enter(page, member);
  const switchTo = await addAndSwitch(page, colleague);
  await page.goto("/settings/profile");
  const kept = await page.getByLabel("Name").inputValue();
  await page.getByLabel("Name").fill("Of the colleague");
  await switchTo(member);
  await expect(page.getByText(`You’re signed in as ${member.email} in another tab.`)).toBeVisible();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await expect(page.getByText("Nothing was changed.")).toBeVisible();

  const account = await page.locator("html").getAttribute("data-account");
  await switchTo(colleague);
  await expect(page.locator("html")).not.toHaveAttribute("data-account", account ?? "");
  await expect(page.getByLabel("Name")).toHaveValue(kept);
});

test("after an account switch in another tab, the next page hides the notice and shows the new account, and later switches update that page", async ({
  page,
  member,
  colleague,
}) => {
  await enter(page, member);
  const switchTo = await addAndSwitch(page, colleague);
  await page.goto("/workspaces");
  await page.getByRole("link", { name: /Personal/ }).click();
  await page.getByRole("link", { name: "Settings", exact: true }).click();
  await page.getByLabel("Name").fill("Half typed");
  await switchTo(member);
  const word = page.getByText(`You’re signed in as ${member.email} in another tab.`);
  await expect(word).toBeVisible();
  const workspaceOf = ({ email }: Person) => page.getByText(`${email.split("@")[0]}'s workspace`);
  await page.getByRole("navigation", { name: "Sections" }).getByRole("link", { name: "Workspaces" }).click();
  await expect(workspaceOf(member)).toBeVisible();
  await expect(word).toBeHidden();
  await switchTo(colleague);
  await expect(workspaceOf(colleague)).toBeVisible();
});

test("the notice about a change in another tab fits small screens, even with a long email", async ({
  context,
  page,
  member,
  colleague,
}) => {
  const email = `${"a".repeat(50)}.${member.email}`;
  await query("update auth.users set email = $2 where email = $1", [member.email, email]);
  await page.setViewportSize({ width: 320, height: 640 });
  await enter(page, colleague, "/workspaces");
  await page.getByLabel("Name").fill("Half typed");
  const other = await context.newPage();
  await signIn(other, { ...member, email }, { at: "/add-account" });
  const word = page.getByText(`You’re signed in as ${email} in another tab.`);
  await expect(word).toBeVisible();
  expect(await word.evaluate((node) => node.getBoundingClientRect().right)).toBeLessThanOrEqual(304);
});
