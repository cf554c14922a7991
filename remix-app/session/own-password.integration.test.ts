import { createClient } from "@supabase/supabase-js";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { confirmationLink } from "../../e2e/mailbox.ts";
import { passMailPause } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { visitorHeaders } from "../testing/visitor.ts";

const { base, supabase } = readStack();
const { admin } = createClient(supabase.url, supabase.secretKey, { auth: { persistSession: false } }).auth;
const theirs = "the attacker's password";
const own = "the owner's own password";
let email: string;

beforeEach(() => {
  email = `${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
});
afterEach(async () => {
  const { data } = await admin.listUsers({ perPage: 1_000 });
  const user = data.users.find((candidate) => candidate.email === email);
  if (user) await admin.deleteUser(user.id);
});

/** Opens a browser without JavaScript that stores cookies and posts forms. */
function openBrowser() {
  const cookies = new Map<string, string>();
  const headers = visitorHeaders();
  return {
    async post(path: string, fields: Record<string, string>) {
      const response = await fetch(new URL(path, base), {
        method: "POST",
        headers: {
          ...headers,
          cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; "),
        },
        body: new URLSearchParams(fields),
        redirect: "manual",
      });
      await response.text();
      for (const header of response.headers.getSetCookie()) {
        const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(header) ?? [];
        if (header.includes("Max-Age=0")) cookies.delete(name);
        else cookies.set(name, value);
      }
      const setCookies = response.headers.getSetCookie().map((header) => header.replace(/=[^;]*/, "").slice(0, 40));
      return { status: response.status, location: response.headers.get("location"), setCookies };
    },
  };
}

async function openMail(browser: ReturnType<typeof openBrowser>, { after = 0 } = {}) {
  const link = new URL(await confirmationLink(email, { after }));
  return browser.post("/auth/confirm", Object.fromEntries(link.searchParams));
}

async function signsIn(password: string): Promise<boolean> {
  const { status } = await openBrowser().post("/login", { email, password });
  return status === 302;
}

const choosePassword = /^\/reset-password\?first=&/;

describe("an account that an attacker had signed up for", () => {
  beforeEach(async () => {
    await openBrowser().post("/signup", { email, password: theirs });
    await passMailPause(email);
  });

  test("confirming a sign-up gives the account only to the mailbox's owner, even if an attacker signed up with the email first", async () => {
    const browser = openBrowser();
    await browser.post("/signup", { email, password: own });
    const { location } = await openMail(browser, { after: 1 });
    expect(location).toBe("/reset-password?first=&returnUrl=%2F");
    expect(await signsIn(theirs)).toBe(false);
    expect((await browser.post(location ?? "", { password: own })).status).toBe(200);
    expect([await signsIn(own), await signsIn(theirs)]).toEqual([true, false]);
  });

  test("opening a password reset link invalidates an attacker's password, even before a new one is chosen", async () => {
    const browser = openBrowser();
    await browser.post("/forgot-password", { email });
    expect((await openMail(browser, { after: 1 })).location).toMatch(choosePassword);
    expect(await signsIn(theirs)).toBe(false);
  });
});

test("sign-up cookies do not reveal whether the email is registered", async () => {
  const signUp = (password: string) => openBrowser().post("/signup", { email, password });
  const answers = [await signUp(own), await signUp(theirs)];
  await openMail(openBrowser());
  answers.push(await signUp(theirs));
  expect(answers[0]?.setCookies).toHaveLength(2);
  for (const answer of answers) expect(answer).toEqual(answers[0]);
});

describe("an account that its owner signed up for", () => {
  test("a sign-up is confirmed with one click in the browser that signed up, even if others sign up with the same email later", async () => {
    const browser = openBrowser();
    await browser.post("/signup", { email, password: own, returnUrl: "/workspaces" });
    await passMailPause(email);
    await openBrowser().post("/signup", { email, password: theirs, returnUrl: "/workspaces" });
    expect((await openMail(browser, { after: 1 })).location).toBe("/workspaces");
    expect([await signsIn(own), await signsIn(theirs)]).toEqual([true, false]);
  });

  test("one click confirms a sign-up in a browser that has already tried to sign in with the same password", async () => {
    await openBrowser().post("/signup", { email, password: own });
    const browser = openBrowser();
    await browser.post("/login", { email, password: own });
    expect((await openMail(browser)).location).toBe("/");
  });

  test("a sign-up requires a new password if another browser confirms it", async () => {
    await openBrowser().post("/signup", { email, password: own });
    expect((await openMail(openBrowser())).location).toMatch(choosePassword);
    expect(await signsIn(own)).toBe(false);
  });
});
