import type { BrowserContext, Page } from "playwright/test";
import { query } from "../scripts/test/people.ts";
import { enter, expect, expectWellMade, type Person, signIn, test } from "./test.ts";

const heading = (page: Page, name: string) => page.getByRole("heading", { level: 1, name });

async function add(page: Page, person: Person): Promise<void> {
  await page.goto("/add-account");
  await page.getByLabel("Email").fill(person.email);
  await page.getByLabel("Password", { exact: true }).fill(person.password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await expect(heading(page, "Home")).toBeVisible();
}

const switchTo = ({ email }: Person) => new RegExp(`^Switch to .*${email}$`);

/** Opens the account menu. @returns the accounts as displayed, the active one first */
async function openMenu(page: Page) {
  await page.getByRole("button", { name: "Account menu" }).click();
  const accounts = page.getByRole("list", { name: "Accounts" });
  await expect(accounts).toBeVisible();
  return accounts;
}

async function expectActive(page: Page, { email }: Person): Promise<void> {
  await expect
    .poll(async () => {
      const response = await page.request.get("/api/v1/auth/session");
      return response.ok() ? (await response.json()).user.email : null;
    })
    .toBe(email);
}

const cookieBytes = async (context: BrowserContext) =>
  (await context.cookies()).reduce((sum, { name, value }) => sum + name.length + value.length + 3, 0);

test("three accounts can be added, switched and signed out one by one", async ({ page, member, colleague, third }) => {
  await signIn(page, member);
  await expect(heading(page, "Home")).toBeVisible();
  await page.goto("/workspaces");
  await openMenu(page);
  await page.getByRole("link", { name: "Add another account" }).click();
  await expect(page.getByText(`You’ll stay signed in as ${member.email}.`)).toBeVisible();
  await add(page, colleague);
  await add(page, third);
  expect(await cookieBytes(page.context())).toBeLessThan(8_192);

  const accounts = await openMenu(page);
  await expect(accounts.getByRole("listitem")).toHaveText([
    new RegExp(`${third.email}.*Active`),
    new RegExp(`Switch to.*${colleague.email}`),
    new RegExp(`Switch to.*${member.email}`),
  ]);
  await accounts.getByRole("button", { name: switchTo(member) }).click();
  await expectActive(page, member);

  await page.goto("/settings/profile");
  await (await openMenu(page)).getByRole("button", { name: switchTo(colleague) }).click();
  await expectActive(page, colleague);
  // A switch to an account reopens the page that the account was last on.
  await (await openMenu(page)).getByRole("button", { name: switchTo(member) }).click();
  await expect(page).toHaveURL("/settings/profile");
  await expectActive(page, member);

  await openMenu(page);
  await page.getByRole("button", { name: "Sign out of this account" }).click();
  await expectActive(page, colleague);
  await openMenu(page);
  await page.getByRole("button", { name: "Sign out of all accounts" }).click();
  await expect(heading(page, "Sign in")).toBeVisible();
  await expectActive(page, { email: null } as never);
});

test("after concurrent account switches in two tabs, one account is active and both accounts are still signed in", async ({
  context,
  page,
  member,
  colleague,
}) => {
  await enter(page, member);
  await expect(heading(page, "Home")).toBeVisible();
  await add(page, colleague);
  const other = await context.newPage();
  await other.goto("/workspaces");
  await Promise.all([openMenu(page), openMenu(other)]);
  await Promise.all([
    page.getByRole("button", { name: switchTo(member) }).click(),
    other.getByRole("button", { name: switchTo(member) }).click(),
  ]);
  for (const tab of [page, other]) await expect(tab.locator("html")).toHaveAttribute("data-account", /.+/);
  await expectActive(page, member);
  // After an account switch in this tab, the other tab follows.
  await page.goto("/");
  await (await openMenu(page)).getByRole("button", { name: switchTo(colleague) }).click();
  await expectActive(page, colleague);
  const shown = await page.locator("html").getAttribute("data-account");
  await expect(other.locator("html")).toHaveAttribute("data-account", shown ?? "");
  await Promise.all([(await openMenu(page)).getByRole("button", { name: switchTo(member) }).click(), other.reload()]);
  await expectActive(page, member);
  const accounts = await openMenu(page);
  await expect(accounts.getByRole("listitem")).toHaveCount(2);
  await expect(accounts.getByText("Signed out")).toHaveCount(0);
});

test("an account that was signed out elsewhere is marked as signed out, and the person can sign in to it again", async ({
  page,
  member,
  colleague,
}) => {
  const endSessions = () =>
    query("delete from auth.sessions s using auth.users u where u.id = s.user_id and u.email = $1", [member.email]);
  await enter(page, member);
  await expect(heading(page, "Home")).toBeVisible();
  await add(page, colleague);
  // The page still lists sessions that have since ended in the database.
  const accounts = await openMenu(page);
  await endSessions();
  await accounts.getByRole("button", { name: switchTo(member) }).click();
  await expect(page.getByText(`${member.email} is signed out.`)).toBeVisible();
  await expect(page.getByLabel("Email")).toHaveValue(member.email);
  await page.getByLabel("Password", { exact: true }).fill(member.password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await expectActive(page, member);

  await page.goto("/");
  await (await openMenu(page)).getByRole("button", { name: switchTo(colleague) }).click();
  await expectActive(page, colleague);
  await endSessions();
  await page.goto("/accounts");
  await expect(heading(page, "Choose an account")).toBeVisible();
  await expectWellMade(page);
  await page.getByRole("link", { name: new RegExp(`${member.email}.*Signed out`) }).click();
  await expect(page.getByLabel("Email")).toHaveValue(member.email);
});
