import { Authenticator } from "@gatehousehq/local-stack/contract/support/authenticator";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { confirmationLink } from "../../e2e/mailbox.ts";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
  signedInLongAgo,
} from "../../scripts/test/people.ts";
import { createHelper, type Helper } from "../../scripts/test/recovery-help.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { codeOf } from "../testing/authenticator-app.ts";
import { type Browser, openBrowser } from "../testing/browser.ts";
import { oauthJourney } from "../testing/oauth-journey.ts";
import { openPhone, unlockedPhone } from "../testing/phone.ts";

const stack = readStack();
const { base, supabase } = stack;
const site = { origin: base, rpId: new URL(base).hostname };
const journey = oauthJourney(stack);
const longAgo = 610;
const guarded = "/settings/security/password";
const stepUp = `/step-up?${new URLSearchParams({ returnUrl: guarded })}`;

let helper: Helper;
const made: Pick<Person, "id">[] = [];

beforeAll(async () => {
  helper = await createHelper();
});
afterAll(async () => {
  await Promise.all(made.map(deletePerson));
  await helper.leave();
});

async function person(): Promise<Person> {
  const one = await createPerson();
  made.push(one);
  return one;
}

/** Copies the browser with its current cookies. The original does not see later changes to the copy's cookies. */
const copyOf = (browser: Browser) => openBrowser(base, { cookie: browser.cookie() });

async function accountsOf(browser: Browser): Promise<string[]> {
  const { status, text } = await browser.get("/api/v1/auth/accounts");
  if (status === 401) return [];
  const { accounts } = JSON.parse(text) as { accounts: { id: string; requiresReauth: boolean }[] };
  return accounts.filter(({ requiresReauth }) => !requiresReauth).map(({ id }) => id);
}

interface Operation {
  /** The browser as it is before the operation. */
  browser: Browser;
  send(browser: Browser): Promise<{ status: number; words: string; text: string }>;
  /** The account that the response signs in. */
  gives: string;
}

async function withPassword(path: string): Promise<Operation> {
  const [ada, { id, email, password }] = [await person(), await person()];
  return { browser: await enter(ada), send: (browser) => browser.post(path, { email, password }), gives: id };
}

async function withMail(path: string, { confirmed }: { confirmed: boolean }): Promise<Operation> {
  const [ada, { id, email, password }] = [await person(), await person()];
  if (!confirmed) {
    await query("update auth.users set email_confirmed_at = null, raw_user_meta_data = '{}' where id = $1", [id]);
  }
  await openBrowser(base).post(path, { email, password });
  const fields = Object.fromEntries(new URL(await confirmationLink(email)).searchParams);
  return { browser: await enter(ada), send: (browser) => browser.post("/auth/confirm", fields), gives: id };
}

async function withRecovery(way: "link" | "code"): Promise<Operation> {
  const [ada, { id, email }] = [await person(), await person()];
  const { token, code, path } = await helper.send(email, await helper.override(email));
  const browser = await enter(ada);
  await browser.get(way === "link" ? path : "/auth/recovery");
  const fields: Record<string, string> = way === "link" ? { token } : { email, code };
  return { browser, send: (copy) => copy.post("/auth/recovery", fields), gives: id };
}

const operations: Record<string, () => Promise<Operation>> = {
  "a sign-in by password": () => withPassword("/login"),
  "adding an account": () => withPassword("/add-account"),
  "a recovery by link": () => withRecovery("link"),
  "a recovery by code": () => withRecovery("code"),
  async "a step-up by password"() {
    const ada = await person();
    const browser = await signedInLongAgo(ada, { secondsAgo: longAgo });
    return { browser, send: (copy) => copy.post(stepUp, { password: ada.password }), gives: ada.id };
  },
};

/** Operations that use up their credential. A repeated request is refused with instructions for starting again. */
const onceOnly: Record<string, () => Promise<Omit<Operation, "gives">>> = {
  async "a sign-in by a provider"() {
    const browser = await enter(await person());
    const email = journey.newEmail();
    const address = new URL(await journey.comeBack(await journey.setOut(browser, { intent: "add" }), { email }));
    // Submits the form of the confirmation page, which appears because another account is signed in.
    const send = (copy: Browser) => copy.post(address.pathname, Object.fromEntries(address.searchParams));
    return { browser, send };
  },
  async "a sign-in by passkey"() {
    const [ada, bob] = [await person(), await person()];
    const owner = await enter(bob);
    const passkey = new Authenticator();
    const begun = JSON.parse((await owner.postJson("/settings/security/passkeys/options", {})).text);
    const credential = passkey.create(begun.options, site);
    await owner.postJson("/settings/security/passkeys", { challengeId: begun.challengeId, credential });
    const browser = await enter(ada);
    const { challengeId, options } = JSON.parse((await browser.postJson("/login/passkey/options", {})).text);
    const answer = { challengeId, credential: passkey.get(options, site) };
    return { browser, send: (copy) => copy.postJson("/login/passkey", answer) };
  },
  "an email confirmation": () => withMail("/signup/check-mail", { confirmed: false }),
  "a password reset": () => withMail("/forgot-password", { confirmed: true }),
};

/**
 * Operations that change the browser's own session or its active account. A reload shows what the lost response would
 * have shown.
 */
const inPlace: Record<string, () => Promise<Omit<Operation, "gives"> & { done(browser: Browser): Promise<boolean> }>> =
  {
    async "a switch"() {
      const [ada, bob] = [await person(), await person()];
      const browser = await enter(ada);
      await browser.post("/add-account", { email: bob.email, password: bob.password });
      await accountsOf(browser);
      return {
        browser,
        send: (copy) => copy.postJson("/api/v1/auth/accounts/switch", { accountId: ada.id }),
        done: async (copy) => JSON.parse((await copy.get("/api/v1/auth/session")).text).user.id === ada.id,
      };
    },
    async "a step-up by code"() {
      const ada = await person();
      const [app] = await insertAuthenticators(ada, ["Phone"]);
      if (!app) throw new Error("no app");
      const prove = { factorId: app.factorId, code: codeOf(app, 1) };
      const browser = await signedInLongAgo(ada, { secondsAgo: longAgo, prove });
      return {
        browser,
        send: (copy) => copy.post(stepUp, { factorId: app.factorId, code: codeOf(app) }),
        done: async (copy) => (await copy.get(guarded)).status === 200,
      };
    },
    async "a QR handoff"() {
      const ada = await person();
      const browser = await signedInLongAgo(ada, { secondsAgo: longAgo });
      await browser.post("/qr", { intent: "create" });
      const path = /data-poll="([^"]+)"/.exec((await browser.get("/qr")).text)?.[1]?.replaceAll("&amp;", "&") ?? "";
      const [, id = "", secret = ""] = /challenges\/([^?]+)\?secret=(.+)$/.exec(path) ?? [];
      const phone = await openPhone({ base, ...supabase }, ada);
      await phone.post(`/api/v1/auth/qr-login/challenges/${id}/approve`, { secret, device: unlockedPhone });
      return {
        browser,
        send: (copy) => copy.get(path),
        // After the approval, the page /qr has to redirect to the destination.
        done: async (copy) =>
          (await copy.get(`/qr?${new URLSearchParams({ returnUrl: guarded })}`)).location === guarded &&
          (await copy.get(guarded)).status === 200,
      };
    },
  };

describe("repeating a request after a lost response", () => {
  test.each(Object.entries(operations))("after a lost response, %s can be repeated", async (_, begin) => {
    const { browser, send, gives } = await begin();
    const before = await accountsOf(copyOf(browser));
    const [old, tab] = [copyOf(browser), copyOf(browser)];
    expect((await send(copyOf(browser))).status).toBe(302);
    for (const one of [copyOf(browser), tab, old]) expect(await accountsOf(one)).toEqual(before);
    expect((await send(browser)).status).toBe(302);
    expect(await accountsOf(old)).toEqual(before);
    const after = [gives, ...before.filter((id) => id !== gives)];
    // Loses the next response too, because only a copy of the browser receives it.
    expect(await accountsOf(copyOf(browser))).toEqual(after);
    expect(await accountsOf(browser)).toEqual(after);
    expect(await accountsOf(old)).toEqual([]);
  });

  test.each(Object.entries(onceOnly))(
    "after a lost response, repeating %s is refused, and the browser keeps its accounts",
    async (_, begin) => {
      const { browser, send } = await begin();
      const before = await accountsOf(copyOf(browser));
      const old = copyOf(browser);
      expect((await send(copyOf(browser))).status).toBeLessThan(400);
      expect(await accountsOf(browser)).toEqual(before);
      const again = await send(browser);
      expect([403, 410]).toContain(again.status);
      expect(again.words || again.text).toMatch(
        /try again|start again|get a new (one|link)|confirmed your email, sign in/i,
      );
      for (const one of [browser, old]) expect(await accountsOf(one)).toEqual(before);
    },
  );

  test.each(Object.entries(inPlace))("after a lost response, %s takes effect on the next request", async (_, begin) => {
    const { browser, send, done } = await begin();
    const before = (await accountsOf(copyOf(browser))).toSorted();
    expect((await send(copyOf(browser))).status).toBeLessThan(400);
    expect(await done(copyOf(browser))).toBe(true);
    expect((await send(browser)).status).toBeLessThan(400);
    expect(await done(browser)).toBe(true);
    expect((await accountsOf(browser)).toSorted()).toEqual(before);
  });
});

test("a recovery can be repeated only by the browser that lost the response, until it receives a response", async () => {
  const { browser, send } = await withRecovery("link");
  const [, mark] = /gh_recovery=([^;]+)/.exec(browser.cookie()) ?? [];
  // Each visit to the page renews the browser's gh_recovery cookie for 15 minutes.
  expect((await browser.get("/auth/recovery")).headers.getSetCookie().join()).toContain(
    `gh_recovery=${mark}; Max-Age=900`,
  );
  expect((await send(copyOf(browser))).status).toBe(302);
  expect((await send(await enter(await person()))).status).toBe(410);
  const old = copyOf(browser);
  expect((await send(browser)).status).toBe(302);
  expect(browser.cookie()).not.toContain("gh_recovery");
  expect((await send(browser)).status).toBe(410);
  // Once the browser has sent its new cookies, the older copy of its cookies stops working.
  await accountsOf(browser);
  expect((await send(old)).status).toBe(410);
});

test("a repeated recovery of an unconfirmed account also requires a new password", async () => {
  const { id, email } = await person();
  await query("update auth.users set email_confirmed_at = null where id = $1", [id]);
  const { token, path } = await helper.send(email, await helper.override(email));
  const browser = openBrowser(base);
  await browser.get(path);
  for (const one of [copyOf(browser), browser]) {
    expect((await one.post("/auth/recovery", { token })).location).toBe("/reset-password?first=&returnUrl=%2F");
  }
});
