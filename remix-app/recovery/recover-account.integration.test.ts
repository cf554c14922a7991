import pg from "pg";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { createApp, handOver, signInAgain } from "../../scripts/test/apps.ts";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
  requireMfa,
} from "../../scripts/test/people.ts";
import { createHelper, type Helper } from "../../scripts/test/recovery-help.ts";
import { openContext } from "../../scripts/test/request-context.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { findRecovery, sendRecovery } from "../admin/recovery.ts";
import { maskEmail } from "../session/mailed-link.ts";
import { openBrowser } from "../testing/browser.ts";
import { recoverAccount } from "./recover-account.ts";

const stack = readStack();
const page = "/auth/recovery";
/** A recovery leads to the access review, and then to the destination. */
const review = (next = "/") => `/settings/security/access?${new URLSearchParams({ returnUrl: next })}`;
let helper: Helper;
let person: Person;

beforeEach(async () => {
  [helper, person] = await Promise.all([createHelper(), createPerson()]);
});
afterEach(async () => {
  await deletePerson(person);
  await helper.leave();
});

const help = async (email = person.email) => helper.send(email, await helper.override(email));
const stranger = () => openBrowser(stack.base);
const sessionOf = async (browser: { get(path: string): Promise<{ text: string }> }) =>
  JSON.parse((await browser.get("/api/v1/auth/session")).text);
const eventsOf = async (email = person.email) =>
  (await findRecovery(await openContext(stack), email)).events.map(({ kind, outcome }) => `${kind} ${outcome}`);

describe("a recovery link", () => {
  test("a recovery link shows the masked account and a button, and signs in only when the button is pressed", async () => {
    const { path, token } = await help();
    for (const method of ["GET", "HEAD", "GET"]) {
      const response = await fetch(new URL(path, stack.base), { method });
      expect(response.status).toBe(200);
      expect(response.headers.get("cache-control")).toContain("no-store");
    }
    const browser = stranger();
    const { words, text } = await browser.get(path);
    expect(words).toContain(`Continue as ${maskEmail(person.email)}`);
    expect(text).not.toContain(person.email);
    expect(await browser.post(page, { token, next: "/settings/security" })).toMatchObject({
      status: 302,
      location: review("/settings/security"),
    });
    expect(await sessionOf(browser)).toMatchObject({ user: { id: person.id }, aal: "aal1", mfa: { satisfied: true } });
    expect(await eventsOf()).toEqual(expect.arrayContaining(["consume by_link", "send issued", "create created"]));
    const mails = async () => (await mailsTo(person.email)).map(({ subject }) => subject);
    await expect.poll(mails, { timeout: 10_000 }).toContain("Your Gatehouse account was recovered");

    const again = await stranger().post(page, { token });
    expect([again.status, again.words]).toEqual([
      410,
      expect.stringContaining("This link has expired, was already used"),
    ]);
    expect((await stranger().get(path)).status).toBe(410);
  });

  test.each(["link", "code"] as const)(
    "a recovery %s is refused in a browser that already has 10 accounts, and still works in another browser",
    async (way) => {
      const { token, code } = await help();
      const owner = await createPerson();
      const full = await enter(owner);
      const deviceId = /gh_device=([0-9a-f-]{36})/.exec(full.cookie())?.[1];
      const others = Array.from({ length: 9 }, () => crypto.randomUUID());
      await query(
        "insert into auth.users (id, email) select id, id || '@full.gatehouse.test' from unnest($1::uuid[]) id",
        [others],
      );
      await query(
        `insert into private.account_vault_entries (device_id, user_id, session_id)
       select $1, id, gen_random_uuid() from unnest($2::uuid[]) id`,
        [deviceId, others],
      );
      const proof: Record<string, string> = way === "link" ? { token } : { email: person.email.toUpperCase(), code };
      expect(await full.post(page, proof)).toMatchObject({ status: 302, location: "/accounts?full" });
      expect(await stranger().post(page, proof)).toMatchObject({ status: 302, location: review() });
      await Promise.all([...others.map((id) => ({ id })), owner].map(deletePerson));
    },
  );

  test.each([
    "//evil.example",
    "https://evil.example/",
    "/\\evil.example",
    "/a/..//evil.example",
    "javascript:alert(1)",
  ])("a recovery link leads only to our own pages, not to %j", async (next) => {
    const { token } = await help();
    expect((await stranger().post(page, { token, next })).location).toBe(review());
  });

  test("a recovery form is accepted only from our own pages", async () => {
    const { token } = await help();
    const response = await fetch(new URL(page, stack.base), {
      method: "POST",
      headers: { "sec-fetch-site": "cross-site", origin: "https://evil.example" },
      body: new URLSearchParams({ token }),
    });
    expect(response.status).toBe(403);
    expect((await stranger().post(page, { token })).location).toBe(review());
  });

  test("a recovery link shows which other account is signed in, and then adds the recovered account to the browser", async () => {
    const other = await createPerson();
    try {
      const { path, token } = await help();
      const browser = await enter(other);
      const { words } = await browser.get(path);
      expect(words).toContain(`You’re signed in as ${other.email}`);
      expect(words).toContain(`Continue as ${maskEmail(person.email)}`);
      await browser.post(page, { token });
      expect(await sessionOf(browser)).toMatchObject({ user: { id: person.id } });
      const { accounts } = JSON.parse((await browser.get("/api/v1/auth/accounts")).text);
      expect(accounts).toMatchObject([
        { id: person.id, active: true },
        { id: other.id, active: false },
      ]);
    } finally {
      await deletePerson(other);
    }
  });

  // Posts the link only ten times, because each post makes several database calls, and these queue.
  // supabase/tests/recovery/credentials.test.ts tests sixty concurrent uses.
  test("a recovery link posted ten times concurrently signs in only once", async () => {
    const { token } = await help();
    const answers = await Promise.all(Array.from({ length: 10 }, () => stranger().post(page, { token })));
    expect(answers.filter(({ location }) => location === review())).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 410)).toHaveLength(9);
    expect(await query("select from auth.sessions where user_id = $1", [person.id])).toHaveLength(1);
  });
});

describe("a recovery code", () => {
  test("a recovery code signs in regardless of the email's letter case, and invalidates the recovery link", async () => {
    const { token, code } = await help();
    const browser = stranger();
    const typed = `${code.slice(0, 3)} ${code.slice(3)}`;
    expect((await browser.post(page, { email: person.email.toUpperCase(), code: typed })).location).toBe(review());
    expect(await sessionOf(browser)).toMatchObject({ user: { id: person.id } });
    expect((await stranger().post(page, { token })).status).toBe(410);
  });

  test("account recovery gives the same refusal for a wrong code, another account's email and an unknown email", async () => {
    const { code } = await help();
    const other = await createPerson();
    const wrong = code === "000000" ? "000001" : "000000";
    const tries = [
      { email: person.email, code: wrong },
      { email: other.email, code },
      { email: `unknown-${other.email}`, code },
    ];
    const answers = await Promise.all(tries.map((fields) => stranger().post(page, fields)));
    await deletePerson(other);
    const shown = answers.map(({ status, words }) => [status, words]);
    expect(shown[0]).toEqual([400, expect.stringContaining("That email and code don’t match")]);
    expect(shown[1]).toEqual(shown[0]);
    expect(shown[2]).toEqual(shown[0]);
    expect((await stranger().post(page, { email: person.email, code })).location).toBe(review());
  });

  test("after five wrong guesses from any browsers, neither the recovery code nor a new one is accepted, but the link still works", async () => {
    const overrideId = await helper.override(person.email);
    const first = await helper.send(person.email, overrideId);
    const wrong = first.code === "000000" ? "000001" : "000000";
    await Promise.all(Array.from({ length: 5 }, () => stranger().post(page, { email: person.email, code: wrong })));
    await query(
      `update private.recovery_credentials
       set created_at = created_at - private.mail_pause(), expires_at = expires_at - private.mail_pause()
       where override_id = $1`,
      [overrideId],
    );
    const second = await helper.send(person.email, overrideId);
    expect((await stranger().post(page, { email: person.email, code: second.code })).status).toBe(400);
    expect(await eventsOf()).toContain("reject locked");
    const { locks } = await findRecovery(await openContext(stack), person.email);
    expect(locks).toContainEqual({ kind: "codes", wrong: 5, until: expect.any(String) });
    expect((await stranger().post(page, { token: second.token })).location).toBe(review());
  });

  test.each([
    [{ email: "", code: "" }, "Enter your email address"],
    [{ email: "a@example.test", code: "12345" }, "Enter the 6 digits from the email"],
  ])("the recovery code form reports what is missing in %j", async (fields, message) => {
    const { status, words } = await stranger().post(page, fields);
    expect([status, words]).toEqual([400, expect.stringContaining(message)]);
  });
});

describe("account recovery", () => {
  test("a recovery lifts the ban and confirms the email only after the link is used", async () => {
    await query(
      "update auth.users set banned_until = now() + interval '1 day', email_confirmed_at = null where id = $1",
      [person.id],
    );
    const { path, token } = await help();
    const blocks = () =>
      query(
        "select banned_until > now() as banned, email_confirmed_at is not null as confirmed from auth.users where id = $1",
        [person.id],
      );
    await stranger().get(path);
    await stranger().post(page, { token: token.replace(/^./, (first) => (first === "A" ? "B" : "A")) });
    expect(await blocks()).toEqual([{ banned: true, confirmed: false }]);
    const browser = stranger();
    const choose = "/reset-password?first=&returnUrl=%2F";
    expect((await browser.post(page, { token })).location).toBe(choose);
    expect(await blocks()).toEqual([{ banned: null, confirmed: true }]);
    expect(await eventsOf()).toContain("unban_attempt unbanned");

    // A stranger who signed up with the email earlier knows the old password.
    const { email, password } = person;
    expect((await stranger().post("/login", { email, password })).status).toBe(400);
    const chosen = `${password} of its owner`;
    expect((await browser.post(choose, { password: chosen })).words).toContain("Password changed");
    expect((await stranger().post("/login", { email, password: chosen })).location).toBe("/");
  });

  test("a recovery link signs no one in and remains usable if an unconfirmed account's password cannot be replaced", async () => {
    await query("update auth.users set email_confirmed_at = null where id = $1", [person.id]);
    const { token } = await help();
    const context = await openContext(stack);
    const other = new pg.Client({ connectionString: stack.supabase.dbUrl });
    await other.connect();
    try {
      await other.query("begin");
      await other.query("select from auth.users where id = $1 for share", [person.id]);
      const recovery = recoverAccount(context, { token });
      // Cancels the update that waits for this lock.
      const cancel = `select pg_cancel_backend(pid) from pg_stat_activity where pg_backend_pid() = any (pg_blocking_pids(pid))`;
      await vi.waitUntil(async () => ((await other.query(cancel)).rowCount ?? 0) > 0);
      expect(await recovery).toMatchObject({ outcome: "failed", status: 503 });
    } finally {
      await other.end();
    }
    expect(await query("select from auth.sessions where user_id = $1", [person.id])).toEqual([]);
    expect(await recoverAccount(context, { token })).toMatchObject({
      outcome: "recovered",
      accountExisted: true,
      passwordReplaced: true,
    });
  });

  test("a recovery without a second factor ends earlier sessions and opens the account's access review", async () => {
    const elsewhere = await enter(person);
    const app = await createApp({ scopes: ["profile"] });
    await handOver({ ...person, ...(await signInAgain(person)) }, app);
    const { token } = await help();
    const browser = stranger();
    const { location } = await browser.post(page, { token });
    expect(location).toBe(review());
    expect((await elsewhere.get("/settings/security")).location).toContain("/login");
    expect(await query("select from auth.sessions where user_id = $1", [person.id])).toHaveLength(1);
    const open = "select from private.app_sessions where user_id = $1 and revoked_at is null";
    expect(await query(open, [person.id])).toEqual([]);
    const list = await browser.get(location ?? "");
    expect([list.status, list.words]).toEqual([200, expect.stringContaining("Review account access")]);
  });

  test("a recovery for an email without an account creates the account", async () => {
    const email = `new-${person.email}`;
    const { code } = await help(email);
    const browser = stranger();
    expect((await browser.post(page, { email, code })).location).toBe("/");
    const { user } = await sessionOf(browser);
    expect(user).toMatchObject({ email });
    expect(await eventsOf(email)).toContain("user_create_attempt created");
    await deletePerson(user);
  });

  test("a recovery signs in at AAL1 and still requires the account's authenticator", async () => {
    await insertAuthenticators(person, ["Phone"]);
    await requireMfa(person);
    const { token } = await help();
    const browser = stranger();
    expect((await browser.post(page, { token, next: "/workspaces" })).location).toBe(
      `/mfa?${new URLSearchParams({ returnUrl: review("/workspaces") })}`,
    );
    const refused = await browser.get("/api/v1/users/me/sessions");
    expect([refused.status, JSON.parse(refused.text).code]).toEqual([403, "MFA_REQUIRED"]);
    const [policy] = await query<{ boundary: number; primary: number; signed_in: number }>(
      `select (p ->> 'boundary')::int as boundary, (p ->> 'primaryBoundary')::int as primary,
         floor(extract(epoch from c.updated_at))::int as signed_in
       from auth.users u
       cross join lateral (select u.raw_app_meta_data -> 'platform_required_mfa' as p) as q
       join auth.sessions s on s.user_id = u.id
       join auth.mfa_amr_claims c on c.session_id = s.id and c.authentication_method = 'otp'
       where u.id = $1`,
      [person.id],
    );
    expect(policy?.primary).toBe(policy?.boundary);
    expect(policy?.signed_in).toBeGreaterThan(policy?.boundary ?? 0);
  });

  test("a recovery does not bypass an account's MFA policy if the policy is unreadable", async () => {
    await query(
      `with writer as (select set_config('gatehouse.required_mfa_writer', 'on', true))
       update auth.users set raw_app_meta_data = raw_app_meta_data || '{"platform_required_mfa": "?"}'
       from writer where id = $1`,
      [person.id],
    );
    const { token } = await help();
    const browser = stranger();
    await browser.post(page, { token });
    expect((await browser.get("/workspaces")).status).toBe(503);
  });

  test("a recovery link remains usable if no session was minted", async () => {
    const { token } = await help();
    await query("insert into private.mint_leases (user_id, expires_at) values ($1, now() + interval '1 minute')", [
      person.id,
    ]);
    const context = await openContext(stack);
    expect(await recoverAccount(context, { token })).toMatchObject({ outcome: "failed", status: 503 });
    await query("delete from private.mint_leases where user_id = $1", [person.id]);
    expect(await recoverAccount(context, { token })).toMatchObject({ outcome: "recovered" });
  });

  test("a recovery returns 503 if the database does not answer", async () => {
    const context = await openContext({ ...stack, supabase: { ...stack.supabase, url: "http://127.0.0.1:9" } });
    const proofs = [{ token: "x".repeat(43) }, { email: person.email, code: "000000" }];
    for (const proof of proofs) expect(await recoverAccount(context, proof)).toMatchObject({ status: 503 });
  });
});

describe("the admin who starts a recovery", () => {
  test("the admin never sees the recovery link or code, and a recovery whose email cannot be sent is refused", async () => {
    const overrideId = await helper.override(person.email);
    const context = await openContext({ ...stack, mail: { smtp: "smtp://127.0.0.1:9" } });
    const sent = await sendRecovery(context, { admin: helper.admin, overrideId, reason: "asked" });
    expect(sent).toMatchObject({ outcome: "refused", status: 503 });
    expect((await eventsOf())[0]).toBe("send failed");
    const { token, code } = await helper.send(person.email, overrideId);
    const shown = JSON.stringify(await findRecovery(await openContext(stack), person.email));
    for (const secret of [token, code]) expect(shown).not.toContain(secret);
    const log = await query<{ row: string }>(
      "select to_jsonb(l)::text as row from private.admin_audit_log l where target = $1",
      [person.email],
    );
    expect(log).toHaveLength(3);
    for (const { row } of log) for (const secret of [token, code]) expect(row).not.toContain(secret);
  });

  test("admins cannot recover their own account", async () => {
    await expect(helper.override(helper.admin.email)).rejects.toThrow("You can’t recover your own account");
  });
});
