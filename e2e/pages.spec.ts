import { query } from "../scripts/test/people.ts";
import { enter, expect, expectWellMade, type Person, test } from "./test.ts";

/** The pages that no other test checks. Pages of the console are in admin.spec.ts. */
const ofVisitors = ["/forgot-password", "/login?signedOutHereOnly", "/auth/recovery", "/no/such/page"];
const ofAccounts = [
  "/settings/profile",
  "/settings/profile/email",
  "/settings/security",
  "/settings/security/access",
  "/settings/security/password",
  "/settings/security/activity",
  "/device",
];

async function ownWorkspace({ email }: Person): Promise<string> {
  const [row] = await query<{ id: string }>(
    "select w.id from public.workspaces w join auth.users u on u.id = w.personal_user_id where u.email = $1",
    [email],
  );
  return `/workspaces/${row?.id}`;
}

test("the pages for visitors are accessible and fit small screens", async ({ page }) => {
  for (const path of ofVisitors) {
    await page.goto(path);
    await expectWellMade(page);
  }
});

test("the pages of an account and its workspace are accessible and fit small screens", async ({ page, member }) => {
  await enter(page, member);
  const workspace = await ownWorkspace(member);
  for (const path of [...ofAccounts, `${workspace}/roles`, `${workspace}/ai/keys`, `${workspace}/ai/keys/approval`]) {
    await page.goto(path);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await expectWellMade(page);
  }
});
