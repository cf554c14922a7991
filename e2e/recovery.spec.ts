import { maskEmail } from "../remix-app/session/mailed-link.ts";
import { codeOf, enrollApps } from "../remix-app/testing/authenticator-app.ts";
import { query, requireMfa } from "../scripts/test/people.ts";
import { createHelper, type Helper } from "../scripts/test/recovery-help.ts";
import { readStack } from "../scripts/test/stack.ts";
import { linkOfMail } from "./mailbox.ts";
import { enter, expect, expectAccessible, expectFitsSmallScreens, signIn, test } from "./test.ts";

let helper: Helper;

test.beforeAll(async () => {
  helper = await createHelper();
});
test.afterAll(() => helper.leave());

const idOf = async (email: string) =>
  (await query<{ id: string }>("select id from auth.users where email = $1", [email]))[0]?.id ?? "";

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });

    test("a banned member regains access through an emailed link that works only once", async ({ page, member }) => {
      await query("update auth.users set banned_until = now() + interval '1 day' where email = $1", [member.email]);
      await signIn(page, member);
      await expect(page.getByRole("alert")).toContainText("don’t match an account");

      await helper.send(member.email, await helper.override(member.email, { normalLogin: false }));
      const link = await linkOfMail(member.email, "Get back into your Gatehouse account");
      await page.goto(link);
      const goOn = page.getByRole("button", { name: `Continue as ${maskEmail(member.email)}` });
      await expect(goOn).toBeVisible();
      if (javaScriptEnabled) await expectAccessible(page);
      await expectFitsSmallScreens(page);
      await goOn.click();
      await expect(page.getByRole("heading", { name: "Review account access" })).toBeVisible();
      await page.getByRole("button", { name: "Remove selected and keep the rest" }).click();
      await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();

      await page.context().clearCookies();
      await page.goto(link);
      await expect(page.getByRole("alert")).toContainText("This link has expired, was already used");
      await signIn(page, member);
      await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
    });
  });
}

test("a member recovers an MFA-protected account with a recovery code and their authenticator, and gets an email", async ({
  page,
  member,
}) => {
  const [app] = await enrollApps(readStack().supabase, { ...member, names: ["Phone"] });
  await requireMfa({ id: await idOf(member.email) });
  const { code } = await helper.send(member.email, await helper.override(member.email));
  await page.goto("/auth/recovery?next=%2Fworkspaces");
  await expectAccessible(page);
  await expectFitsSmallScreens(page);

  await page.getByLabel("Email").fill(member.email);
  await page.getByLabel("6-digit code").fill(code === "000000" ? "000001" : "000000");
  await page.getByLabel("6-digit code").press("Enter");
  await expect(page.getByRole("alert")).toBeFocused();
  await expect(page.getByRole("alert")).toContainText("That email and code don’t match");
  await expect(page.getByLabel("Email")).toHaveValue(member.email);
  await expect(page.getByLabel("6-digit code")).toHaveValue("");
  await expectAccessible(page);

  await page.getByLabel("6-digit code").fill(code);
  await page.getByLabel("6-digit code").press("Enter");
  await expect(page.getByRole("heading", { name: "Enter your code" })).toBeVisible();
  if (!app) throw new Error("no app");
  await page.getByLabel("6-digit code").fill(codeOf(app, 1));
  await page.getByRole("button", { name: "Verify" }).click();
  await page.getByRole("button", { name: "Remove selected and keep the rest" }).click();
  await expect(page).toHaveURL(/\/workspaces$/);
  expect(await linkOfMail(member.email, "Your Gatehouse account was recovered")).toContain("/settings/security");
});

test("recovering an email address without an account creates an account, and keeps the browser's other account signed in", async ({
  page,
  newcomer,
  member,
}) => {
  await enter(page, member);
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  const { path } = await helper.send(newcomer.email, await helper.override(newcomer.email));
  await page.goto(path);
  await expect(page.getByText(`You’re signed in as ${member.email}`)).toBeVisible();
  await page.getByRole("button", { name: `Continue as ${maskEmail(newcomer.email)}` }).click();
  await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();
  const { activeAccountId } = await page.evaluate(async () => (await fetch("/api/v1/auth/accounts")).json());
  expect(activeAccountId).toBe(await idOf(newcomer.email));
});
