import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { type Browser, openBrowser } from "../testing/browser.ts";

const { base } = readStack();
const api = "/api/v1/auth/accounts";

let ada: Person;
let bob: Person;
let cid: Person;

beforeEach(async () => {
  [ada, bob, cid] = await Promise.all([createPerson(), createPerson(), createPerson()]);
});
afterEach(async () => {
  await Promise.all([ada, bob, cid].map(deletePerson));
});

const add = (browser: Browser, { email, password }: Person) => browser.post("/add-account", { email, password });
const copyOf = (browser: Browser) => withCookies(browser.cookie());
const withCookies = (...cookies: string[]) => openBrowser(base, { cookie: cookies.filter(Boolean).join("; ") });

/** Returns the browser's cookies whose names start with `start`. */
const cookiesOf = (browser: Browser, start: string) =>
  browser
    .cookie()
    .split("; ")
    .filter((pair) => pair.startsWith(start))
    .join("; ");

async function accountsOf(browser: Browser): Promise<string[]> {
  const { status, text } = await browser.get(api);
  if (status === 401) return [];
  const { accounts } = JSON.parse(text) as { accounts: { id: string; requiresReauth: boolean }[] };
  return accounts.filter(({ requiresReauth }) => !requiresReauth).map(({ id }) => id);
}

const sessionsOf = ({ id }: Person) => query("select from auth.sessions where user_id = $1", [id]);
const idsOf = (...people: Person[]) => people.map(({ id }) => id).sort();

describe("two tabs of one browser that add accounts concurrently", () => {
  test("two tabs that add accounts concurrently keep all the accounts", async () => {
    const browser = await enter(ada);
    await Promise.all([add(browser, bob), add(browser, cid)]);
    expect((await accountsOf(browser)).sort()).toEqual(idsOf(ada, bob, cid));
    for (const one of [ada, bob, cid]) {
      expect((await browser.postJson(`${api}/switch`, { accountId: one.id })).status).toBe(200);
    }
  });

  test("two tabs that add the same account keep one session", async () => {
    const browser = await enter(ada);
    await Promise.all([add(browser, bob), add(browser, bob)]);
    expect((await accountsOf(browser)).sort()).toEqual(idsOf(ada, bob));
    expect(await sessionsOf(bob)).toHaveLength(1);
  });

  test("two tabs keep all the added accounts, regardless of the order of the responses", async () => {
    const browser = await enter(ada);
    await add(browser, bob);
    const [first, early] = [copyOf(browser), copyOf(browser)];
    await add(early, cid);
    const second = withCookies(browser.cookie(), cookiesOf(early, "gh_added_"));
    // Simulates that the second request, sent with both addition cookies, is answered before the first request.
    await accountsOf(first);
    await accountsOf(second);
    const late = withCookies(
      ...["sb-", "gh_device="].map((start) => cookiesOf(first, start)),
      cookiesOf(second, "gh_added_"),
    );
    expect((await accountsOf(late)).sort()).toEqual(idsOf(ada, bob, cid));
    expect(cookiesOf(late, "gh_device=")).toBe(cookiesOf(second, "gh_device="));
    // The browser lost both responses, so it sends the same cookies again.
    const lost = withCookies(browser.cookie(), cookiesOf(early, "gh_added_"));
    expect((await accountsOf(lost)).sort()).toEqual(idsOf(ada, bob, cid));
  });

  test("adding an account in a tab with older cookies keeps the account that another tab has just added", async () => {
    const browser = await enter(ada);
    const tab = copyOf(browser);
    await add(browser, bob);
    await accountsOf(browser);
    await add(tab, cid);
    const both = withCookies(browser.cookie(), cookiesOf(tab, "gh_added_"));
    expect((await accountsOf(both)).sort()).toEqual(idsOf(ada, bob, cid));
  });
});

test("concurrent requests with the cookies of one sign-in all lead to the same device secret", async () => {
  const browser = await enter(ada);
  await add(browser, bob);
  const tabs = Array.from({ length: 50 }, () => copyOf(browser));
  const answers = await Promise.all(
    tabs.map((tab, nth) =>
      nth % 10 === 0 ? tab.postJson(`${api}/switch`, { accountId: nth % 20 === 0 ? ada.id : bob.id }) : tab.get(api),
    ),
  );
  expect(answers.map(({ status }) => status)).toEqual(Array(50).fill(200));
  for (const tab of [...tabs.slice(0, 12), browser]) expect((await accountsOf(tab)).sort()).toEqual(idsOf(ada, bob));
  const devices = new Set([...tabs.slice(0, 12), browser].map((tab) => cookiesOf(tab, "gh_device=")));
  expect(devices.size).toBe(1);
});

test("submitting a form that was loaded before other accounts were added loses none of the accounts", async () => {
  const browser = await enter(ada);
  const tab = copyOf(browser);
  const before = cookiesOf(tab, "gh_device=");
  for (const one of [bob, cid]) {
    await add(browser, one);
    await accountsOf(browser);
  }
  await add(tab, bob);
  // The response sets no device cookie, because a new one would overwrite the browser's current device cookie.
  expect(cookiesOf(tab, "gh_device=")).toBe(before);
  const both = withCookies(browser.cookie(), cookiesOf(tab, "gh_added_"));
  expect((await accountsOf(both)).sort()).toEqual(idsOf(ada, bob, cid));
});

test("losing several responses in a row, including the response to a switch, loses no account", async () => {
  const browser = await enter(ada);
  await add(browser, bob);
  await accountsOf(copyOf(browser));
  await copyOf(browser).postJson(`${api}/switch`, { accountId: ada.id });
  for (const _ of [1, 2]) expect((await accountsOf(copyOf(browser))).sort()).toEqual(idsOf(ada, bob));
  // Simulates that half a minute has passed.
  const [, id] = /gh_device=([^.]+)/.exec(browser.cookie()) ?? [];
  await query(
    "update private.account_devices set previous_until = now() where id = $1 and previous_until is not null",
    [id],
  );
  expect((await accountsOf(browser)).sort()).toEqual(idsOf(ada, bob));
});

test("two concurrent first sign-ins in one browser each create a device, and the browser keeps the one from the last response", async () => {
  const browser = openBrowser(base);
  await Promise.all([ada, bob].map(({ email, password }) => browser.post("/login", { email, password })));
  const [active, ...others] = await accountsOf(browser);
  expect([idsOf(ada, bob).includes(active ?? ""), others]).toEqual([true, []]);
});

describe("access to an added account", () => {
  test("an added account is not revealed to a thief with an earlier copy of the cookies, even if the thief adds an account too", async () => {
    const browser = await enter(ada);
    const thief = copyOf(browser);
    await add(browser, bob);
    await add(thief, cid);
    // The owner's browser sends its next request before the thief's copy does.
    expect((await accountsOf(browser)).sort()).toEqual(idsOf(ada, bob));
    expect(await accountsOf(copyOf(thief))).toEqual([]);
    expect((await accountsOf(browser)).sort()).toEqual(idsOf(ada, bob));
    // This time, the copy sends its next request before the owner's browser does. The owner's new account must not join
    // the copy's accounts.
    const [second, copy] = [copyOf(browser), copyOf(browser)];
    await add(second, cid);
    await add(copy, ada);
    expect((await accountsOf(copy)).sort()).toEqual(idsOf(ada, bob));
    await accountsOf(second);
    expect((await accountsOf(copy)).sort()).toEqual(idsOf(ada, bob));
  });

  test("copies of a browser's cookies never reveal an account that was added later, even if many copies are used concurrently", async () => {
    const browser = await enter(ada);
    await add(browser, cid);
    await accountsOf(browser);
    const copies = Array.from({ length: 50 }, () => copyOf(browser));
    await add(browser, bob);
    const seen = await Promise.all(
      [browser, ...copies].map(async (copy, nth) => {
        if (nth % 10 === 1) await add(copy, cid);
        if (nth % 10 === 2) await copy.postJson(`${api}/switch`, { accountId: ada.id });
        if (nth % 10 === 3) await copy.postJson(`${api}/switch`, { accountId: bob.id });
        return (await copy.get(api)).text + (await copy.get(api)).text;
      }),
    );
    for (const text of seen.slice(1)) expect(text).not.toContain(bob.id);
  });

  test("an added account is not revealed to an attacker who plants cookies in the victim's browser before or after the sign-in", async () => {
    const mallory = await enter(ada);
    const own = copyOf(mallory);
    await add(own, cid);
    const planted = [mallory.cookie(), cookiesOf(own, "gh_added_")];
    const victim = withCookies(...planted);
    const held = [withCookies(...planted), mallory, own];
    await victim.post("/login", { email: bob.email, password: bob.password });
    // After the victim's sign-in and before the victim's next request, Mallory adds an account again and plants the new
    // cookie.
    const again = copyOf(own);
    await add(again, ada);
    const shown = withCookies(victim.cookie(), cookiesOf(again, "gh_added_"));
    expect(await accountsOf(shown)).toContain(bob.id);
    for (const one of [...held, again, withCookies(...planted, cookiesOf(again, "gh_added_"))]) {
      expect(await accountsOf(copyOf(one))).not.toContain(bob.id);
      expect(await accountsOf(one)).not.toContain(bob.id);
    }
  });

  test("an added account's cookie reveals nothing if it is sent alone, as a device cookie, or with another device's cookie", async () => {
    const [browser, other] = [await enter(ada), await enter(cid)];
    await add(browser, bob);
    const addition = cookiesOf(browser, "gh_added_");
    const value = addition.slice(addition.indexOf("=") + 1);
    const device = cookiesOf(other, "gh_device=");
    for (const cookie of [addition, `gh_device=${value}`, `gh_device=${value}; ${addition}`]) {
      const alone = withCookies(cookie);
      expect(await accountsOf(alone)).toEqual([]);
    }
    const foreign = withCookies(device, addition);
    expect(await accountsOf(foreign)).toEqual([cid.id]);
    expect(foreign.cookie()).not.toContain("gh_added_");
    expect((await accountsOf(browser)).sort()).toEqual(idsOf(ada, bob));
  });

  test("after a browser signs out of all accounts, its earlier cookies give access to no account", async () => {
    const browser = await enter(ada);
    await add(browser, bob);
    const before = browser.cookie();
    const lost = copyOf(browser);
    await add(lost, cid);
    await browser.post("/logout", {});
    expect(browser.cookie()).not.toMatch(/gh_added_|gh_device|sb-/);
    for (const one of [withCookies(before), lost]) expect(await accountsOf(one)).toEqual([]);
    for (const one of [ada, bob, cid]) expect(await sessionsOf(one)).toEqual([]);
  });
});
