import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { confirmationLink, mailsTo } from "../../e2e/mailbox.ts";
import { type Account, createAccount } from "../../scripts/test/account.ts";
import { passMailPause, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { quoteText } from "../mail/inert-text.ts";
import { atOnce, callAtOnce } from "../testing/at-once.ts";
import { openBrowser } from "../testing/browser.ts";
import { maskEmail } from "./mailed-link.ts";

const { base } = readStack();
let account: Account;
let newEmail: string;

beforeEach(async () => {
  account = await createAccount();
  newEmail = `new-${account.email}`;
});
afterEach(() => account.remove());

async function signIn(email = account.email) {
  const browser = openBrowser(base);
  const { location } = await browser.post("/login", { email, password: account.password });
  return { browser, signedIn: location === "/" };
}

/** Requests the change. @returns the browser that requested it */
async function ask(to = newEmail) {
  const { browser } = await signIn();
  const answer = await browser.post("/settings/profile/email", { email: to });
  return { browser, answer };
}

const fieldsOf = (link: string) => Object.fromEntries(new URL(link).searchParams);
const confirm = (link: string, browser = openBrowser(base)) => browser.post("/auth/confirm", fieldsOf(link));
const profile = async (browser: ReturnType<typeof openBrowser>) => (await browser.get("/settings/profile")).words;
const noticesTo = async (address: string) =>
  (await mailsTo(address)).filter((mail) => mail.subject === "Your Gatehouse email was changed");

describe("a change of email", () => {
  test.each([
    ["the new mailbox first", (current: string, next: string) => [next, current]],
    ["the old mailbox first", (current: string, next: string) => [current, next]],
  ] as const)(
    "a change of email takes effect once both addresses have confirmed it (%s), and both are notified",
    async (_, order) => {
      const { browser, answer } = await ask();
      expect(answer.location).toBe("/settings/profile#email");
      expect(await profile(browser)).toContain("Email change requested.");
      const [first = "", second = ""] = order(await confirmationLink(account.email), await confirmationLink(newEmail));

      const half = await confirm(first);
      expect(half).toMatchObject({ status: 200, words: expect.stringContaining("One more confirmation") });
      expect(await profile(browser)).toMatch(/Confirmed.*Not confirmed yet|Not confirmed yet.*Confirmed/s);
      expect((await signIn(newEmail)).signedIn).toBe(false);
      const asked = await openBrowser(base).get(new URL(second).pathname + new URL(second).search);
      expect(asked.words).toContain("This is the last step");
      // The link's page shows the new email, and only the first letter of the account's own.
      expect(asked.words).toContain(`${maskEmail(account.email)} to ${newEmail}`);
      expect(asked.text.replaceAll(newEmail, "")).not.toContain(account.email);

      const elsewhere = openBrowser(base);
      const whole = await confirm(second, elsewhere);
      expect(whole).toMatchObject({ status: 200, words: expect.stringContaining("Email changed") });
      expect(elsewhere.cookie()).not.toContain("auth-token");
      expect([(await signIn(newEmail)).signedIn, (await signIn()).signedIn]).toEqual([true, false]);
      const text = await profile(browser);
      expect(text).toContain(newEmail);
      expect(text).not.toContain("Not confirmed yet");
      for (const address of [account.email, newEmail]) await expect.poll(() => noticesTo(address)).toHaveLength(1);
      expect((await noticesTo(account.email))[0]?.text).toContain(`To: ${quoteText(newEmail)}`);
      const rows = await query(
        "select kind, session_id from public.security_events where user_id = $1 and kind like 'email%'",
        [account.id],
      );
      expect(rows.map(({ kind }) => kind).sort()).toEqual(["email_change_requested", "email_changed"]);
    },
  );

  test("a change of email is confirmed only once, even if its links are submitted concurrently", async () => {
    await ask();
    const links = [await confirmationLink(account.email), await confirmationLink(newEmail)];
    const answers = await callAtOnce((nth) => confirm(links[nth % 2] ?? ""));
    expect(answers.filter(({ words }) => words.includes("One more confirmation"))).toHaveLength(1);
    expect(answers.filter(({ words }) => words.includes("Email changed"))).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 410)).toHaveLength(atOnce - 2);
    await expect.poll(() => noticesTo(newEmail)).toHaveLength(1);
  });

  test("a change of email for an account without an email is complete once the new mailbox confirms", async () => {
    const { browser } = await signIn();
    await query("update auth.users set email = null where id = $1", [account.id]);
    expect((await browser.post("/settings/profile/email", { email: newEmail })).status).toBe(303);
    expect(await profile(browser)).toMatch(/No email yet.*To finish, open the link we sent:/s);
    const link = new URL(await confirmationLink(newEmail));
    expect((await openBrowser(base).get(link.pathname + link.search)).words).toContain("Your account’s email will be");
    const whole = await confirm(link.href, browser);
    expect(whole).toMatchObject({ status: 200, words: expect.stringContaining("Email changed") });
    expect((await signIn(newEmail)).signedIn).toBe(true);
  });

  test("a change of email is not affected by a mail scanner", async () => {
    const { browser } = await ask();
    for (const address of [account.email, newEmail]) {
      const link = await confirmationLink(address);
      for (const method of ["GET", "HEAD"]) await fetch(link, { method });
    }
    expect(await profile(browser)).not.toContain("Confirmed");
  });

  test("canceling a change of email invalidates both links and keeps the old email", async () => {
    const { browser } = await ask();
    const links = [await confirmationLink(account.email), await confirmationLink(newEmail)];
    expect((await browser.post("/settings/profile/email-change", { do: "cancel" })).status).toBe(303);
    const text = await profile(browser);
    expect(text).toContain("Email change canceled.");
    expect(text).not.toContain(newEmail);
    for (const link of links) {
      const { pathname, search } = new URL(link);
      expect((await openBrowser(base).get(pathname + search)).status).toBe(410);
      expect((await confirm(link)).status).toBe(410);
    }
    expect((await signIn()).signedIn).toBe(true);
    await browser.post("/settings/profile/email-change", { do: "cancel" });
    expect(await profile(browser)).toContain("There’s no pending email change.");
  });

  test("resending the links of an email change resets both confirmations and invalidates the earlier links", async () => {
    const { browser } = await ask();
    const first = await confirmationLink(account.email);
    await confirm(first);
    await passMailPause(account.email);
    await browser.post("/settings/profile/email-change", { do: "resend" });
    expect(await profile(browser)).toContain("We sent new links to both addresses.");
    expect((await profile(browser)).match(/Not confirmed yet/g)).toHaveLength(2);
    const link = await confirmationLink(account.email, { after: 1 });
    expect((await confirm(first)).status).toBe(410);
    expect((await confirm(link)).words).toContain("One more confirmation");
  });

  test("a change of email cannot be requested again within three minutes, so the links sent first keep working", async () => {
    const { browser } = await ask();
    const link = await confirmationLink(account.email);
    expect((await browser.post("/settings/profile/email-change", { do: "resend" })).status).toBe(303);
    expect(await profile(browser)).toContain("We just sent an email.");
    const { status, words, headers } = await browser.post("/settings/profile/email", { email: `other-${newEmail}` });
    expect([status, words]).toEqual([429, expect.stringContaining("You can request new ones in 3 minutes.")]);
    expect(Number(headers.get("retry-after"))).toBeGreaterThan(150);
    expect([await mailsTo(newEmail), await mailsTo(`other-${newEmail}`)]).toEqual([[expect.anything()], []]);
    expect((await confirm(link)).words).toContain("One more confirmation");
  });

  test.each([
    ["nonsense", "Enter an email address"],
    ["same", "This is already your email"],
    ["taken", "This email can’t be used"],
  ])("a change of email is rejected with an error at the field: %s", async (what, message) => {
    const other = await createAccount();
    try {
      const to = { nonsense: "nonsense", same: account.email.toUpperCase(), taken: other.email }[what];
      const { answer } = await ask(to);
      expect(answer).toMatchObject({ status: 400, words: expect.stringContaining(message) });
      expect(await mailsTo(other.email)).toEqual([]);
    } finally {
      await other.remove();
    }
  });

  test("a change of email leaves no code verifier in the browser", async () => {
    const { browser } = await ask();
    expect(browser.cookie()).not.toContain("verifier");
  });

  test("confirming another account's change of email leaves the visitor's own session unchanged", async () => {
    const other = await createAccount();
    try {
      await ask();
      const victim = openBrowser(base);
      await victim.post("/login", { email: other.email, password: other.password });
      const link = new URL(await confirmationLink(newEmail));
      const { words } = await victim.get(link.pathname + link.search);
      expect(words).toContain(`You’re signed in as ${other.email}`);
      expect(words).toContain("This link is for another account");
      await confirm(await confirmationLink(account.email), victim);
      await confirm(await confirmationLink(newEmail), victim);
      expect(await profile(victim)).toContain(other.email);
    } finally {
      await other.remove();
    }
  });
});

test("a dead link of each type leads to the page that sends a new link", async () => {
  const hash = "a".repeat(56);
  const page = async (type: string) => (await openBrowser(base).post("/auth/confirm", { token_hash: hash, type })).text;
  expect(await page("recovery")).toContain('href="/forgot-password"');
  expect(await page("signup")).toContain('href="/signup/check-mail"');
  expect(await page("email_change")).toContain('href="/settings/profile#email"');
});
