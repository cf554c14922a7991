import { createClient } from "@supabase/supabase-js";
import { beforeEach, describe, expect, test } from "vitest";
import { confirmationLink, mailsTo } from "../../e2e/mailbox.ts";
import { passMailPause, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openBrowser } from "../testing/browser.ts";
import { oauthJourney } from "../testing/oauth-journey.ts";

const { supabase, ...stack } = readStack();
const journey = oauthJourney({ ...stack, supabase });
const { base } = journey;
const withoutStorage = { auth: { persistSession: false, autoRefreshToken: false } };
const direct = () => createClient(supabase.url, supabase.publishableKey, withoutStorage).auth;
const squatter = { display_name: "Squatter", name: "Squatter", avatar_url: "https://evil.example/a.png", org: "Evil" };
let email: string;

const linkFields = async (after: number) =>
  Object.fromEntries(new URL(await confirmationLink(email, { after })).searchParams);
const accountOf = async () => {
  const [row] = await query(
    `select p.display_name, p.avatar_url, w.name as workspace, u.raw_user_meta_data as metadata,
       u.email_confirmed_at is not null as confirmed, array(
         select i.identity_data::text from auth.identities i where i.user_id = u.id
       )::text as identities
     from auth.users u
     join public.profiles p on p.id = u.id
     join public.workspaces w on w.personal_user_id = u.id
     where u.email = $1`,
    [email],
  );
  return row;
};

beforeEach(async () => {
  email = journey.newEmail();
  // Calls the identity backend directly, as anyone can.
  const { error } = await direct().signUp({ email, password: "the squatter's password", options: { data: squatter } });
  expect(error).toBeNull();
  expect(await accountOf()).toMatchObject({ display_name: "Squatter", workspace: "Squatter's workspace" });
  await passMailPause(email);
});

const ways: [string, () => Promise<unknown>][] = [
  ["the sign-up email's link", async () => openBrowser(base).post("/auth/confirm", await linkFields(0))],
  [
    "a password-reset email's link",
    async () => {
      await openBrowser(base).post("/forgot-password", { email });
      await openBrowser(base).post("/auth/confirm", await linkFields(1));
    },
  ],
  [
    "a code that a phone submits",
    async () => {
      const { token_hash = "" } = await linkFields(0);
      expect((await direct().verifyOtp({ token_hash, type: "email" })).error).toBeNull();
    },
  ],
  [
    "an administrator",
    async () => {
      const id = (await journey.accountOf(email)) ?? "";
      await journey.service.auth.admin.updateUserById(id, { email_confirm: true });
    },
  ],
];

describe("an unconfirmed account that an attacker created with another person's email", () => {
  test.each(ways)(
    "an account that an attacker created with another person's email loses the attacker's data when %s confirms it",
    async (_, confirm) => {
      await confirm();
      const account = await accountOf();
      const name = email.split("@")[0];
      expect(account).toMatchObject({ confirmed: true, display_name: name, workspace: `${name}'s workspace` });
      expect(JSON.stringify(account)).not.toMatch(/squatter|evil/i);
    },
  );

  test("sign-in attempts with an attacker's password are rejected while the owner confirms the account", async () => {
    const fields = await linkFields(0);
    let confirmed = false;
    const codes: (string | undefined)[] = [];
    const squat = async () => {
      while (!confirmed) {
        const { error } = await direct().signInWithPassword({ email, password: "the squatter's password" });
        codes.push(error?.code);
      }
    };
    const squatters = Array.from({ length: 6 }, squat);
    const answer = await openBrowser(base).post("/auth/confirm", fields);
    confirmed = true;
    await Promise.all(squatters);
    expect(answer.location).toMatch(/^\/reset-password\?first=/);
    expect(codes.length).toBeGreaterThan(0);
    expect(codes.filter((code) => code !== "email_not_confirmed" && code !== "invalid_credentials")).toEqual([]);
  });

  test("the owner's first sign-in with a provider replaces the data of an account that an attacker created with the owner's email", async () => {
    expect(await journey.signIn(openBrowser(base), { email })).toMatchObject({ location: "/" });
    expect(await mailsTo(email)).toHaveLength(1);
    const account = await accountOf();
    expect(account).toMatchObject({ confirmed: true, metadata: { email, email_verified: true } });
    expect(JSON.stringify(account)).not.toMatch(/squatter|evil/i);
    expect(await journey.providersOf(email)).toEqual([journey.provider]);
  });
});

test("a provider identity with an unverified email cannot sign in, even after the mailbox's owner confirms the account by email", async () => {
  email = journey.newEmail();
  const { location } = await journey.signIn(openBrowser(base), { email, verified: false });
  expect(location).toContain("/login?oauth=");
  expect(await journey.providersOf(email)).toEqual([journey.provider]);
  const confirmed = await openBrowser(base).post("/auth/confirm", await linkFields(0));
  expect(confirmed.status).toBe(302);
  expect(await journey.providersOf(email)).toEqual(["email"]);
  const again = await journey.signIn(openBrowser(base), { email, verified: false });
  expect(again.location).toContain("/login?oauth=");
});

test("a name set after the first confirmation is kept", async () => {
  const { token_hash = "" } = await linkFields(0);
  const auth = direct();
  await auth.verifyOtp({ token_hash, type: "signup" });
  await auth.updateUser({ data: { display_name: "Ada" } });
  await auth.refreshSession();
  expect(await accountOf()).toMatchObject({ metadata: { display_name: "Ada" } });
});

test.each([
  ["the browser that signed up", true, "Ada Lovelace"],
  ["another browser", false, null],
])("the name typed at sign-up is kept if %s confirms the email: %s", async (_, isSame, name) => {
  email = journey.newEmail();
  const browser = openBrowser(base);
  const signUp = { name: "Ada  Lovelace", email, password: `a long password ${email}`, returnUrl: "/workspaces" };
  expect((await browser.post("/signup", signUp)).status).toBe(302);
  await (isSame ? browser : openBrowser(base)).post("/auth/confirm", await linkFields(0));
  const shown = name ?? email.split("@")[0];
  expect(await accountOf()).toMatchObject({ display_name: shown, workspace: `${shown}'s workspace` });
});
