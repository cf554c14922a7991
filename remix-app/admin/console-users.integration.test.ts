import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { createPerson, deletePerson, enter, type Person, query, signIn } from "../../scripts/test/people.ts";

let admin: ConsoleAdmin;
let other: ConsoleAdmin;
let person: Person;

beforeAll(async () => {
  [admin, other] = await Promise.all([createConsoleAdmin(), createConsoleAdmin()]);
});
afterAll(() => Promise.all([deletePerson(admin), deletePerson(other)]));
beforeEach(async () => {
  person = await createPerson();
});
afterEach(() => deletePerson(person));

const page = () => `/admin/users/${person.id}`;
const step = (name: string) => `${page()}/mfa/${name}`;
const filled = (more: Record<string, string> = {}) => ({
  generation: "0",
  reason: "Asked by phone",
  confirmation: person.email,
  ...more,
});
const stateOf = async (id = person.id) =>
  (
    await query<{ state: string }>(
      "select private.required_mfa_state(raw_app_meta_data) as state from auth.users where id = $1",
      [id],
    )
  )[0]?.state;

describe("the console's search", () => {
  test("finds an account by part of its email and by its id, and links to its page", async () => {
    const part = person.email.slice(0, 7).toUpperCase();
    for (const term of [part, person.id]) {
      const { status, words, text } = await admin.browser.get(`/admin/accounts?q=${encodeURIComponent(term)}`);
      expect([status, words]).toEqual([200, expect.stringContaining(person.email)]);
      expect(text).toContain(page());
    }
    expect((await admin.browser.get("/admin/accounts?q=no%25such%25user")).words).toContain("No account matches");
  });

  test("finds both accounts with the same email, and marks the one that uses single sign-on", async () => {
    const twin = await createPerson();
    try {
      await query("update auth.users set is_sso_user = true, email = $2 where id = $1", [twin.id, person.email]);
      const { text, words } = await admin.browser.get(`/admin/accounts?q=${encodeURIComponent(person.email)}`);
      for (const { id } of [person, twin]) expect(text).toContain(`/admin/users/${id}`);
      expect(words.match(/Single sign-on/g)).toHaveLength(1);
      expect((await admin.browser.get(`/admin/users/${twin.id}`)).words).toContain("single sign-on");
      expect((await admin.browser.get(page())).words).not.toContain("single sign-on");
    } finally {
      await deletePerson(twin);
    }
  });

  test("only admins with a second factor of their own can use the console's search", async () => {
    const stranger = await enter(person);
    for (const path of ["/admin", "/admin/accounts", page(), step("require")])
      expect((await stranger.get(path)).status).toBe(403);
    expect((await stranger.post(step("require"), filled())).status).toBe(403);
    const oneFactor = await enter(admin);
    expect((await oneFactor.get("/admin")).location).toBe("/mfa?returnUrl=%2Fadmin");
    expect((await oneFactor.post(step("require"), filled())).location).toMatch(/^\/mfa\?/);
    expect(await stateOf()).toBe("optional");
  });
});

describe("an account's page", () => {
  test("an account's page shows its state, its sessions, and each admin action with its reason", async () => {
    await signIn(person);
    await query(
      "update public.security_events set device = 'Chrome on macOS' where user_id = $1 and kind = 'sign_in'",
      [person.id],
    );
    await admin.browser.post(step("require"), filled());
    const { text, words } = await admin.browser.get(page());
    expect(text).toContain('<p class="font-medium">Chrome on macOS</p>');
    for (const shown of ["Required", "Signed in", "Required MFA", `${admin.email}: Asked by phone`]) {
      expect(words).toContain(shown);
    }
    expect((await admin.browser.get("/admin/users/unknown")).status).toBe(404);
    expect((await admin.browser.get(`/admin/users/${crypto.randomUUID()}`)).status).toBe(404);
  });

  test("an admin's own account page says that admins can't change their own account, and offers no changes", async () => {
    const own = `/admin/users/${admin.id}`;
    expect((await admin.browser.get(own)).words).toContain("You can’t change your own account here");
    expect((await admin.browser.get(`${own}/mfa/reset`)).text).not.toContain('name="confirmation"');
    for (const name of ["require", "reset"]) {
      const { status } = await admin.browser.post(`${own}/mfa/${name}`, filled({ confirmation: admin.email }));
      expect(status).toBe(403);
    }
    expect(await stateOf(admin.id)).toBe("optional");
  });
});

describe("a change of an account's second factor", () => {
  test("requires a reason and the account's email to change a second factor, and keeps the typed values", async () => {
    expect((await admin.browser.get(step("require"))).words).toContain("has never been changed");
    const unexplained = await admin.browser.post(step("require"), filled({ reason: " " }));
    expect([unexplained.status, unexplained.words]).toEqual([400, expect.stringContaining("Enter a reason")]);
    const other = await admin.browser.post(step("require"), filled({ confirmation: "yes" }));
    expect([other.status, other.words]).toEqual([400, expect.stringContaining(`Type “${person.email}” to confirm`)]);
    expect(other.text).toContain('value="Asked by phone"');
    expect((await admin.browser.post(step("destroy"), filled())).status).toBe(404);
    expect(await stateOf()).toBe("optional");
  });

  test("after a change of a second factor, the account's page says what was done", async () => {
    const done = await admin.browser.post(step("require"), filled());
    expect(done.location).toBe(`${page()}?done=require`);
    expect((await admin.browser.get(done.location ?? "")).words).toContain("MFA is now required for this account");
    expect((await admin.browser.get(step("make-optional"))).words).toContain(`by ${admin.email}`);
    const { confirmation: _, ...back } = filled({ generation: "1" });
    const optional = await admin.browser.post(step("make-optional"), back);
    expect([optional.location, await stateOf()]).toEqual([`${page()}?done=make-optional`, "optional"]);
  });

  test("refuses a second-factor change that conflicts with an earlier one, and names the admin who made the earlier one", async () => {
    await other.browser.post(step("require"), filled());
    const late = await admin.browser.post(step("reset"), filled());
    expect([late.status, late.words]).toEqual([409, expect.stringContaining(`${other.email} changed it on`)]);
  });
});
