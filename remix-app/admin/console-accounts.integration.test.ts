import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { createPerson, deletePerson, enter, type Person, query, signIn } from "../../scripts/test/people.ts";

let admin: ConsoleAdmin;
let person: Person;

beforeAll(async () => {
  admin = await createConsoleAdmin();
});
afterAll(() => deletePerson(admin));
beforeEach(async () => {
  person = await createPerson();
  await query("update public.profiles set created_at = now() - interval '1 day' where id = $1", [person.id]);
});
afterEach(() => deletePerson(person));

const page = () => `/admin/users/${person.id}`;
const subjects = async () => (await mailsTo(person.email)).map(({ subject }) => subject);
const textOf = async (subject: string) => (await mailsTo(person.email)).find((mail) => mail.subject === subject)?.text;

test("an admin bans an account with a reason, and lifts the ban", async () => {
  const browser = await enter(person);
  const ban = { reason: "Spam to customers", days: "3", confirmation: person.email };
  expect((await admin.browser.get(page())).text).toContain(`${page()}/ban`);
  expect((await admin.browser.post(`${page()}/ban`, { ...ban, confirmation: "yes" })).status).toBe(400);
  expect((await admin.browser.post(`${page()}/ban`, { ...ban, days: "366" })).status).toBe(400);
  expect((await admin.browser.post(`${page()}/ban`, ban)).location).toBe(`${page()}?done=ban`);
  expect((await browser.get("/workspaces")).location).toMatch(/^\/login/);
  expect((await signIn(person)).location).toBeNull();
  const banned = "Your Gatehouse account was blocked";
  await expect.poll(subjects).toContain(banned);
  expect((await textOf(banned))?.replaceAll("\u200A", "")).toContain("Reason: Spam to customers");
  const { words } = await admin.browser.get(page());
  for (const shown of ["This account is banned until", "Banned an account", "Spam to customers", "Lift ban"])
    expect(words).toContain(shown);
  expect((await admin.browser.post(`${page()}/ban`, ban)).status).toBe(409);

  expect((await admin.browser.post(`${page()}/unban`, { reason: "" })).status).toBe(400);
  expect((await admin.browser.post(`${page()}/unban`, { reason: "A mistake" })).location).toBe(`${page()}?done=unban`);
  expect((await signIn(person)).location).toBe("/");
  await expect.poll(subjects).toContain("Your Gatehouse account was unblocked");
});

test("an admin schedules an account's deletion and keeps it, or it is deleted when it is due", async () => {
  const form = { reason: "Left the company", days: "1", confirmation: person.email };
  expect((await admin.browser.get(`${page()}/keep`)).words).toContain("isn’t possible");
  expect((await admin.browser.post(`${page()}/delete`, { ...form, days: "31" })).status).toBe(400);
  expect((await admin.browser.post(`${page()}/delete`, form)).location).toBe(`${page()}?done=delete`);
  expect((await admin.browser.get(page())).words).toContain("deletion is scheduled for");
  expect((await admin.browser.post(`${page()}/unban`, { reason: "Back" })).status).toBe(409);
  expect((await admin.browser.post(`${page()}/keep`, { reason: "Back" })).location).toBe(`${page()}?done=keep`);
  expect((await signIn(person)).location).toBe("/");

  await admin.browser.post(`${page()}/delete`, form);
  await query(
    "update private.account_deletions set requested_at = '2000-01-01', due_at = '2000-01-02' where user_id = $1",
    [person.id],
  );
  await expect
    .poll(async () => {
      await query("select private.delete_due_accounts()", []);
      return query("select from auth.users where id = $1", [person.id]);
    })
    .toEqual([]);
  await expect.poll(subjects).toContain("Your Gatehouse account was deleted");
});

test("an admin can't ban or delete their own account", async () => {
  const own = `/admin/users/${admin.id}`;
  expect((await admin.browser.get(own)).text).not.toContain(`${own}/ban`);
  const form = { reason: "test", confirmation: admin.email, days: "7" };
  for (const step of ["ban", "delete"]) expect((await admin.browser.post(`${own}/${step}`, form)).status).toBe(403);
  expect((await admin.browser.get(`${own}/nonsense`)).status).toBe(404);
});

test("only admins see invitations, settings and the steps of an account", async () => {
  const stranger = await enter(person);
  for (const path of [
    "/admin/invitations",
    "/admin/invitations/new",
    "/admin/settings",
    `/admin/users/${admin.id}/ban`,
  ])
    expect((await stranger.get(path)).status).toBe(403);
});

test("an admin invites a person, who gets a link, and revokes the invitation", async () => {
  const email = `${crypto.randomUUID()}@integration.gatehouse.test`;
  const invite = () => admin.browser.post("/admin/invitations/new", { email: email.toUpperCase(), reason: "New here" });
  expect((await admin.browser.post("/admin/invitations/new", { email: "x", reason: "New" })).status).toBe(400);
  const { location } = await invite();
  const id = /invited=([0-9a-f-]{36})/.exec(location ?? "")?.[1] ?? "";
  expect((await admin.browser.get(location ?? "")).words).toContain(`${email} is invited.`);
  await expect.poll(async () => (await mailsTo(email)).at(-1)?.text).toContain(`/signup?invitation=${id}`);
  expect((await invite()).status).toBe(409);
  const taken = await admin.browser.post("/admin/invitations/new", { email: person.email, reason: "New here" });
  expect([taken.status, taken.words]).toEqual([409, expect.stringContaining("already has an account")]);
  const revoke = `/admin/invitations/${id}/revoke`;
  expect((await admin.browser.post(revoke, { reason: "Wrong person" })).location).toBe("/admin/invitations?revoked");
  expect((await admin.browser.post(revoke, { reason: "Wrong person" })).status).toBe(409);
  expect((await admin.browser.get(revoke)).words).toContain("no longer open");
  await query("delete from private.account_invitations where email = $1", [email]);
});

test("closing sign-up must be typed, and a form about another setting changes nothing", async () => {
  const { words, text } = await admin.browser.get("/admin/settings");
  expect(words).toContain("Sign-up is open");
  expect(text).toContain('name="confirmation"');
  const close = { reason: "test", seen: "open" };
  expect((await admin.browser.post("/admin/settings", close)).status).toBe(400);
  const stale = { ...close, seen: "invitation", confirmation: "close sign-up" };
  expect((await admin.browser.post("/admin/settings", stale)).status).toBe(409);
});
