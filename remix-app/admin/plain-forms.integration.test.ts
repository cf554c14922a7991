import { expect, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { createPerson, deletePerson, insertAuthenticators, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openPlainTab } from "../testing/plain-tab.ts";

test("without JavaScript, an admin requires MFA, completes an interrupted reset and restores a person's access", async () => {
  const [admin, member] = [await createConsoleAdmin(), await createPerson()];
  await insertAuthenticators(member, ["Lost phone"]);
  const tab = openPlainTab(readStack().base, admin.browser);
  const search = async (at: string, label: string) => {
    await tab.open(at);
    tab.fill(label, member.email);
    await tab.press("Search");
  };
  const explain = async (button: string) => {
    tab.fill("Reason", "Called, and proved who they are");
    await tab.press(button);
  };
  const confirm = async (button: string) => {
    await explain(button);
    expect([tab.status(), tab.errorOf(/to confirm$/)]).toEqual([
      400,
      expect.stringContaining(`Type “${member.email}” to confirm. Nothing was changed.`),
    ]);
    tab.fill(/to confirm$/, member.email);
    await tab.press(button);
  };

  await search("/admin/accounts", "Email, name or ID");
  await tab.follow(member.email);
  expect(tab.heading()).toBe(member.email);
  await tab.follow("Require MFA");
  await confirm("Require MFA");
  expect(tab.words()).toContain("MFA is now required for this account.");
  expect(tab.words()).toContain(`${admin.email}: Called, and proved who they are`);

  // The state that a server leaves behind when it is killed halfway through a reset.
  await query(
    `select private.change_required_mfa(jsonb_build_object(
       'actor', $1::text, 'subject', $2::uuid, 'step', 'begin_reset', 'generation', 1, 'reason', 'Lost phone'
     ))`,
    [admin.id, member.id],
  );
  await tab.open(tab.path());
  expect(tab.words()).toContain("The reset isn’t finished.");
  await tab.follow("Finish reset");
  await confirm("Reset authenticators");
  expect(tab.words()).toContain("The authenticators were removed");
  expect(tab.words()).toContain("No authenticators yet.");

  await tab.follow("Recovery");
  await search(tab.path(), "Email");
  await tab.follow("Create override");
  await explain("Create override");
  await tab.follow("Send recovery email");
  await explain("Send recovery email");
  expect(tab.words()).toContain("We sent the recovery email.");
  await expect
    .poll(async () => (await mailsTo(member.email)).map(({ subject }) => subject))
    .toContain("Get back into your Gatehouse account");
  await tab.follow("Revoke override");
  await explain("Revoke override");
  expect(tab.words()).toContain("Override revoked.");

  await tab.follow("Audit log");
  tab.fill("Name, email, ID or other target", member.email);
  tab.fill("Action", "Revoked a recovery override");
  await tab.press("Filter");
  expect(tab.texts("main li").filter((text) => text.includes(member.email))).toHaveLength(1);
  await deletePerson(member);
  await deletePerson(admin);
});

test("without JavaScript, an admin bans an account, lifts the ban, and invites a person", async () => {
  const [admin, member] = [await createConsoleAdmin(), await createPerson()];
  const email = `${crypto.randomUUID()}@integration.gatehouse.test`;
  const tab = openPlainTab(readStack().base, admin.browser);
  try {
    await tab.open(`/admin/users/${member.id}`);
    await tab.follow("Ban account");
    tab.fill("Reason", "Sent spam");
    tab.fill("Banned for (days)", "3");
    await tab.press("Ban account");
    expect([tab.status(), tab.valueOf("Banned for (days)")]).toEqual([400, "3"]);
    tab.fill(/to confirm$/, member.email);
    await tab.press("Ban account");
    expect(tab.words()).toContain("The account is banned and signed out everywhere.");
    await tab.follow("Lift ban");
    tab.fill("Reason", "A mistake");
    await tab.press("Lift ban");
    expect(tab.words()).toContain("The ban is lifted.");

    await tab.follow("Invitations");
    await tab.follow("Invite");
    tab.fill("Email", email);
    await tab.press("Invite");
    expect([tab.status(), tab.valueOf("Email")]).toEqual([400, email]);
    tab.fill("Reason", "New here");
    await tab.press("Invite");
    expect(tab.words()).toContain(`${email} is invited.`);
  } finally {
    await query("delete from private.account_invitations where email = $1", [email]);
    await Promise.all([deletePerson(member), deletePerson(admin)]);
  }
});
