import { query } from "../scripts/test/people.ts";
import { enter, expect, expectWellMade, type Person, test } from "./test.ts";

/** The pages that no other test checks. Pages of the console are in admin.spec.ts. */
const ofVisitors = ["/forgot-password", "/login?signedOutHereOnly", "/auth/recovery", "/no/such/page"];
const ofAccounts = [
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

test("the pages of an account and its workspace are accessible and fit small screens", async ({
  page,
  member,
  newcomer,
}) => {
  // Another session, a pending change of email and an open request, so that the pages show all of their controls.
  await enter(page, member);
  await enter(page, member, "/settings/profile/email");
  await page.getByLabel("New email").fill(newcomer.email);
  await page.getByRole("button", { name: "Change email" }).click();
  await expect(page.getByRole("button", { name: "Cancel email change" })).toBeVisible();
  await expectWellMade(page);
  const workspace = await ownWorkspace(member);
  await query("insert into ai.key_approval_requests (workspace_id) values ($1)", [workspace.slice(12)]);
  for (const path of [...ofAccounts, `${workspace}/roles`, `${workspace}/ai/keys`, `${workspace}/ai/keys/approval`]) {
    await page.goto(path);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await expectWellMade(page);
  }
});
