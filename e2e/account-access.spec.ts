import { query } from "../scripts/test/people.ts";
import { confirmationLink } from "./mailbox.ts";
import { enter, expect, expectAccessible, expectFitsSmallScreens, type Person, signIn, test } from "./test.ts";

const button = "Remove selected and keep the rest";

/** Links a provider account as if by a direct call to the identity backend, which bypasses our pages. */
async function linkDirectly({ email }: Person): Promise<void> {
  await query(
    `insert into auth.identities (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
     select gen_random_uuid()::text, u.id, jsonb_build_object('sub', u.id, 'email', 'somebody.else@mail.example'),
       'google', now(), now(), now()
     from auth.users u where u.email = $1`,
    [email],
  );
}

for (const javaScriptEnabled of [true, false]) {
  test.describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    test.use({ javaScriptEnabled });

    test("after a password reset, one button removes the sign-in methods that someone else added", async ({
      page,
      browser,
      member,
    }) => {
      const theirs = await (await browser.newContext()).newPage();
      await signIn(theirs, member);
      await expect(theirs.getByRole("heading", { name: "Home" })).toBeVisible();
      await linkDirectly(member);

      await page.goto("/forgot-password");
      await page.getByLabel("Email").fill(member.email);
      await page.getByRole("button", { name: "Send reset link" }).click();
      await page.goto(await confirmationLink(member.email));
      await page.getByRole("button", { name: "Continue" }).click();
      await page.getByLabel("New password").fill(`quite another ${crypto.randomUUID()}`);
      await page.getByRole("button", { name: "Change password" }).click();
      await expect(page.getByRole("heading", { name: "Review account access" })).toBeVisible();
      await expect(page.getByRole("listitem").filter({ hasText: "somebody.else" })).toContainText("Unconfirmed");
      await expect(page.getByLabel("Google: somebody.else@mail.example")).toBeChecked();
      await expect(page.getByLabel("Password")).not.toBeChecked();
      if (javaScriptEnabled) await expectAccessible(page);
      await expectFitsSmallScreens(page);
      await page.getByRole("button", { name: button }).click();
      await expect(page.getByRole("heading", { name: "Home" })).toBeVisible();

      await page.goto("/settings/security");
      await expect(page.locator("#linked-accounts")).not.toContainText("somebody.else");
      await theirs.goto("/workspaces");
      await expect(theirs).toHaveURL(/\/login/);
    });

    test("while reviewing account access, the owner can keep added sign-in methods, but cannot remove every way to sign in", async ({
      page,
      member,
    }) => {
      await enter(page, member);
      await linkDirectly(member);
      await page.goto("/settings/security");
      await expect(page.locator("#linked-accounts")).toContainText("Unconfirmed");
      await page.getByRole("link", { name: "Review account access" }).click();
      await expect(page.getByRole("heading", { name: "Review account access", level: 1 })).toBeVisible();
      if (javaScriptEnabled) await expectAccessible(page);
      await expectFitsSmallScreens(page);
      await page.getByLabel("Password").check();
      await page.getByRole("button", { name: button }).click();
      await expect(page.getByRole("alert")).toContainText("Keep at least one way to sign in");
      await expect(page.getByRole("alert")).toBeFocused();
      await expect(page.getByLabel("Password")).toBeChecked();
      if (javaScriptEnabled) await expectAccessible(page);
      await expectFitsSmallScreens(page);
      await page.getByLabel("Password").uncheck();
      await page.getByLabel("Google: somebody.else@mail.example").uncheck();
      await page.getByRole("button", { name: button }).click();
      await expect(page.getByRole("status").filter({ hasText: "You reviewed account access" })).toBeVisible();
      await expect(page.locator("#linked-accounts")).toContainText("somebody.else@mail.example");
      await expect(page.getByText("Unconfirmed")).toHaveCount(0);
    });
  });
}
