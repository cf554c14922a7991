import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { recoveryHashSecret } from "../../scripts/start/secrets.ts";
import { createPerson, deletePerson, type Person, query } from "../../scripts/test/people.ts";
import { createHelper, type Helper } from "../../scripts/test/recovery-help.ts";
import { openContext } from "../../scripts/test/request-context.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { findRecovery } from "../admin/recovery.ts";
import { openBrowser } from "../testing/browser.ts";
import { newAddress, visitorHeaders } from "../testing/visitor.ts";
import { startWeb, type WebProcess } from "../testing/web-process.ts";

const { base, supabase, ...stack } = readStack();
let helper: Helper;
let person: Person;

beforeEach(async () => {
  [helper, person] = await Promise.all([createHelper(), createPerson()]);
  await query(
    "update auth.users set banned_until = now() + interval '1 day', email_confirmed_at = null where id = $1",
    [person.id],
  );
});
afterEach(async () => {
  await deletePerson(person);
  await helper.leave();
});

const login = async (password = person.password, address = newAddress()) =>
  openBrowser(base, { address }).post("/login", { email: person.email, password });
const banned = async () =>
  (
    await query<{ banned: boolean }>("select banned_until > now() as banned from auth.users where id = $1", [person.id])
  )[0]?.banned;
const eventsOf = async () =>
  (await findRecovery(await openContext({ ...stack, base, supabase }), person.email)).events
    .map(({ kind, outcome }) => `${kind} ${outcome}`)
    .reverse();

describe("a normal sign-in under a recovery override", () => {
  test("a sign-in with the right password under a recovery override lifts the ban, confirms the email and is recorded", async () => {
    await helper.override(person.email);
    expect((await login(`${person.password}!`)).status).toBe(400);
    expect(await banned()).toBe(true);
    expect((await login()).location).toBe("/");
    expect(await banned()).toBeNull();
    expect(await eventsOf()).toEqual([
      "create created",
      "reject login_wrong",
      "login_bypass password_proven",
      "unban_attempt unbanned",
    ]);
    const events = await query(
      "select kind, method from public.security_events where user_id = $1 order by created_at, id",
      [person.id],
    );
    expect(events).toEqual([
      { kind: "account_banned", method: null },
      { kind: "account_unbanned", method: null },
      { kind: "sign_in", method: "password" },
    ]);
  });

  test("a sign-in under a recovery override does not confirm the email of an account created after the override", async () => {
    await query("update auth.users set banned_until = null where id = $1", [person.id]);
    await helper.override(person.email);
    await query("update auth.users set created_at = now() where id = $1", [person.id]);
    expect((await login()).location).toMatch(/^\/signup\/check-mail\?/);
    const [account] = await query("select email_confirmed_at from auth.users where id = $1", [person.id]);
    expect(account).toEqual({ email_confirmed_at: null });
    expect(await eventsOf()).toEqual(["create created", "reject login_unconfirmed"]);
  });

  test.each([
    ["the account has no override", async () => {}],
    ["the override is for recovery emails only", () => helper.override(person.email, { normalLogin: false })],
    ["the override was revoked", async () => helper.revoke(await helper.override(person.email))],
    [
      "the override has expired",
      async () => {
        const id = await helper.override(person.email);
        await query(
          "update private.recovery_overrides set created_at = now() - interval '2 s', expires_at = now() where id = $1",
          [id],
        );
      },
    ],
  ])("a sign-in to a banned account leaves the ban in place if %s", async (_, given) => {
    await given();
    expect((await login()).status).toBe(400);
    expect(await banned()).toBe(true);
  });

  test("a sign-in under a recovery override bypasses the rate limits for the email, but not those for the IP address", async () => {
    await query("update auth.users set banned_until = null, email_confirmed_at = now() where id = $1", [person.id]);
    const address = newAddress();
    for (let wrong = 0; wrong < 10; wrong += 1) await login("wrong", address);
    expect((await login(person.password, address)).status).toBe(429);
    await helper.override(person.email);
    await query(
      "insert into private.address_blocks (address, action, level, blocked_until) values (private.address_network($1), 'password', 1, now() + interval '1 hour')",
      [address],
    );
    expect((await login(person.password, address)).status).toBe(429);
    await query(
      "update private.address_blocks set lifted_at = now(), lift_reason = 'test' where address = private.address_network($1)",
      [address],
    );
    expect((await login("wrong")).status).toBe(400);
    expect((await login(person.password, address)).location).toBe("/");
    expect(await eventsOf()).toEqual(["create created", "reject login_wrong", "login_bypass signed_in"]);
  });
});

describe("a sign-in under a recovery override while a bot challenge is required", () => {
  let web: WebProcess;
  beforeAll(async () => {
    web = await startWeb(supabase.url, {
      env: {
        SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
        SUPABASE_SECRET_KEY: supabase.secretKey,
        AUTH_RECOVERY_HASH_SECRET: recoveryHashSecret(supabase.secretKey),
        TURNSTILE_SITE_KEY: "1x00000000000000000000AA",
        TRUSTED_PROXY_HOPS: "1",
      },
    });
  });
  afterAll(() => web.stop());

  test("a recovery override bypasses neither the bot challenge nor the user-agent check", async () => {
    await helper.override(person.email);
    const post = (headers: Record<string, string>) =>
      web.fetch("/login", {
        method: "POST",
        headers: { ...visitorHeaders(), ...headers },
        body: new URLSearchParams({ email: person.email, password: person.password }),
      });
    expect((await post({ "user-agent": "Test browser" })).status).toBe(403);
    expect((await post({ "user-agent": "sqlmap/1.7" })).status).toBe(403);
    expect(await banned()).toBe(true);
    expect(await eventsOf()).toEqual(["create created"]);
  });
});
