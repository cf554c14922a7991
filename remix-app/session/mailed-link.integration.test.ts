import { createClient } from "@supabase/supabase-js";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createPerson, deletePerson, enter, insertAccount, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openBrowser } from "../testing/browser.ts";
import { newAddress } from "../testing/visitor.ts";

const { base, supabase } = readStack();
const { admin } = createClient(supabase.url, supabase.secretKey, { auth: { persistSession: false } }).auth;
const password = "three unrelated words";
const unknown = "a".repeat(56);
let email: string;
let masked: string;

beforeEach(() => {
  email = `ada.${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
  masked = "a•••@integration.gatehouse.test";
});
afterEach(async () => {
  const [account] = await query<{ id: string }>("select id from auth.users where email = $1", [email]);
  if (account) await deletePerson(account);
});

/** Creates a link as the backend does for its emails. */
async function linkOf(type: "signup" | "invite" | "recovery" | "magiclink") {
  if (type === "recovery" || type === "magiclink") await insertAccount({ email, password });
  const { data, error } = await admin.generateLink(type === "signup" ? { type, email, password } : { type, email });
  if (error) throw error;
  return { token_hash: data.properties.hashed_token, type: type as string };
}
const pathOf = (link: Record<string, string>) => `/auth/confirm?${new URLSearchParams(link)}`;

describe.each(["signup", "invite", "recovery"] as const)("the page of an emailed %s link", (type) => {
  test("an emailed link's page shows the account's masked email above the button, and does not use up the link", async () => {
    const link = await linkOf(type);
    for (const method of ["GET", "HEAD", "GET"]) {
      expect((await fetch(new URL(pathOf(link), base), { method })).status).toBe(200);
    }
    const { words, text } = await openBrowser(base).get(pathOf(link));
    expect(words.indexOf(masked)).toBeGreaterThan(-1);
    expect(words.indexOf(masked)).toBeLessThan(words.search(/Confirm and sign in|Accept and sign in|Continue/));
    expect(text).not.toContain(email);
    expect((await openBrowser(base).post("/auth/confirm", link)).status).toBe(302);
    const dead = await openBrowser(base).get(pathOf(link));
    expect([dead.status, dead.words]).toEqual([410, expect.stringContaining("This link no longer works")]);
    expect(dead.text).not.toContain(masked);
  });

  test("an emailed link's page names the browser's active account if it is a different one", async () => {
    const link = await linkOf(type);
    const other = await createPerson();
    const { words } = await (await enter(other)).get(pathOf(link));
    await deletePerson(other);
    expect(words).toContain(`You’re signed in as ${other.email}`);
    expect(words).toContain(masked);
    if (type !== "recovery") return;
    expect((await (await enter({ email, password })).get(pathOf(link))).words).not.toContain("You’re signed in as");
  });
});

// Supabase Auth's POST /verify accepts these types, but our confirmation page does not:
// https://supabase.com/docs/reference/javascript/auth-verifyotp
describe.each(["magiclink", "email"])("an emailed link of type %s", (type) => {
  test("an unsupported emailed link is refused with instructions and stays unused", async () => {
    const link = { ...(await linkOf("magiclink")), type };
    for (const answer of [
      await openBrowser(base).get(pathOf(link)),
      await openBrowser(base).post("/auth/confirm", link),
    ]) {
      expect([answer.status, answer.words]).toEqual([400, expect.stringContaining("This link can’t sign you in")]);
      expect(answer.text).toContain('href="/login"');
      expect(answer.headers.getSetCookie().join()).not.toContain("auth-token=base64");
    }
    const [token] = await query("select from auth.one_time_tokens where token_hash = $1", [link.token_hash]);
    expect(token).toBeDefined();
  });
});

test.each(["sms", "phone_change", "reauthentication", "", "__proto__"])(
  "an emailed link of type %j is refused",
  async (type) => {
    const link = { token_hash: unknown, type };
    expect((await openBrowser(base).get(pathOf(link))).status).toBe(400);
    expect((await openBrowser(base).post("/auth/confirm", link)).status).toBe(400);
  },
);

test.each([
  ["signup", "/signup/check-mail"],
  ["invite", "/signup"],
  ["recovery", "/forgot-password"],
  ["email_change", "/settings/profile#email"],
])("the page of a dead link of type %s links to %s", async (type, way) => {
  const { status, text } = await openBrowser(base).get(pathOf({ token_hash: unknown, type }));
  expect(status).toBe(410);
  expect(text).toContain(`href="${way}"`);
});

test("an emailed link of one type does not reveal its account when opened as another type", async () => {
  const { token_hash } = await linkOf("signup");
  for (const type of ["recovery", "email_change"]) {
    expect((await openBrowser(base).get(pathOf({ token_hash, type }))).status).toBe(410);
  }
});

test("after 60 guesses at emailed links from one IP address, every link returns 429 and hides the account's email", async () => {
  const link = await linkOf("signup");
  const address = newAddress();
  const browser = openBrowser(base, { address });
  for (let made = 0; made < 58; made += 1) {
    await query("select private.begin_attempt($1)", [JSON.stringify({ address, action: "code" })]);
  }
  // Opening a valid link does not count as an attempt.
  for (let opened = 0; opened < 3; opened += 1) expect((await browser.get(pathOf(link))).status).toBe(200);
  const guess = pathOf({ token_hash: unknown, type: "signup" });
  expect([(await browser.get(guess)).status, (await browser.get(guess)).status]).toEqual([410, 410]);
  for (const path of [guess, pathOf(link)]) {
    const refused = await browser.get(path);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, expect.stringMatching(/^\d+$/)]);
    expect(refused.words).toContain("Open the link again later. It still works.");
    expect(refused.words).not.toContain(masked);
    expect(refused.text).not.toContain(`name="token_hash"`);
  }
  expect((await openBrowser(base).get(pathOf(link))).words).toContain(masked);
});
