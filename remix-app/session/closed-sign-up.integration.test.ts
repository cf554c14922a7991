import { createClient } from "@supabase/supabase-js";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readStackFile } from "../../scripts/test/stack.ts";
import { startStack } from "../../scripts/test/start-stack.ts";
import { openBrowser } from "../testing/browser.ts";
import { visitProvider } from "../testing/provider-visit.ts";

// Uses its own stack, because closing sign-up would refuse the accounts of other tests.
const started = await startStack();
const { base, supabase } = readStackFile(started.file);
const database = new Client({ connectionString: supabase.dbUrl });
const password = "correct horse battery";
const withoutSession = { auth: { persistSession: false, autoRefreshToken: false } };

beforeAll(async () => {
  await database.connect();
  await database.query("update private.platform_settings set sign_up = 'invitation'");
});
afterAll(async () => {
  await database.end();
  await started.stop();
});

const newEmail = () => `${crypto.randomUUID()}@closed.gatehouse.test`;
const hasAccount = async (email: string) =>
  (await database.query("select from auth.users where email = $1", [email])).rowCount === 1;

async function invite(email: string): Promise<string> {
  const { rows } = await database.query<{ id: string }>(
    "insert into private.account_invitations (email, reason) values ($1, 'test') returning id",
    [email],
  );
  return rows[0]?.id ?? "";
}

describe("the sign-up page while sign-up is closed", () => {
  test("has no form without an invitation, and gives every email the same answer", async () => {
    const known = newEmail();
    await invite(known);
    const auth = createClient(supabase.url, supabase.secretKey, withoutSession).auth.admin;
    expect((await auth.createUser({ email: known, password, email_confirm: true })).error).toBeNull();
    for (const path of ["/signup", `/signup?invitation=${crypto.randomUUID()}`]) {
      const { status, text, words } = await openBrowser(base).get(path);
      expect([status, text.includes('name="password"')]).toEqual([200, false]);
      expect(words).toMatch(/Sign-up is by invitation|This invitation no longer works/);
    }
    const answers = await Promise.all(
      [known, newEmail()].map((email) => openBrowser(base).post("/signup", { email, password })),
    );
    expect(answers.map(({ status }) => status)).toEqual([403, 403]);
  });

  test("lets an invited person sign up with the invited email only", async () => {
    const [email, other] = [newEmail(), newEmail()];
    const path = `/signup?invitation=${await invite(email)}`;
    const browser = openBrowser(base);
    expect((await browser.get(path)).text).toContain(`value="${email}"`);
    expect((await browser.post(path, { email: other, password })).status).toBe(403);
    expect((await browser.post(path, { email: email.toUpperCase(), password })).location).toMatch(
      /^\/signup\/check-mail/,
    );
    expect([await hasAccount(email), await hasAccount(other)]).toEqual([true, false]);
  });
});

test("a stranger who signs in with a provider reads that sign-up is by invitation", async () => {
  const browser = openBrowser(base);
  const provider = /\/auth\/oauth\/([a-z]+)/.exec((await browser.get("/login")).text)?.[1] ?? "";
  const signIn = async (email: string) => {
    const { location } = await browser.post(`/auth/oauth/${provider}`, {});
    return browser.get(await visitProvider(location ?? "", { ourOrigin: base, email }));
  };
  const stranger = newEmail();
  const refused = await signIn(stranger);
  expect(refused.location).toMatch(/^\/login\?oauth=uninvited/);
  expect((await browser.get(refused.location ?? "")).words).toContain("sign-up is by invitation");
  expect(await hasAccount(stranger)).toBe(false);
  const invited = newEmail();
  await invite(invited);
  expect((await signIn(invited)).location).toBe("/");
});

describe("direct calls of the identity backend while sign-up is closed", () => {
  const anyone = () => createClient(supabase.url, supabase.publishableKey, withoutSession).auth;
  const operator = createClient(supabase.url, supabase.secretKey, withoutSession).auth.admin;

  test.each([
    ["a sign-up", (email: string) => anyone().signUp({ email, password })],
    ["a mailed code", (email: string) => anyone().signInWithOtp({ email })],
    ["the secret key", (email: string) => operator.createUser({ email, password, email_confirm: true })],
    ["an invitation of the backend", (email: string) => operator.inviteUserByEmail(email)],
    ["a generated link", (email: string) => operator.generateLink({ type: "signup", email, password })],
  ] as const)("%s creates no account for a stranger, and one for an invited email", async (_, call) => {
    const [stranger, invited] = [newEmail(), newEmail()];
    expect((await call(stranger)).error?.status).toBe(500);
    expect(await hasAccount(stranger)).toBe(false);
    await invite(invited);
    expect((await call(invited)).error).toBeNull();
    expect(await hasAccount(invited)).toBe(true);
  });
});
