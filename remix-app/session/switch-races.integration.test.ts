import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { expired, openTestVault, vaultSettings } from "../../scripts/test/keep-session.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { createCookieJar } from "../http/cookies.ts";
import { atOnce } from "../testing/at-once.ts";
import { type Browser, openBrowser } from "../testing/browser.ts";
import { startWatchedWeb, type Trouble, type WatchedWeb } from "../testing/watched-web.ts";
import { startWeb } from "../testing/web-process.ts";
import { readDeviceCookie } from "./cookies.ts";
import { sealSession } from "./vault.ts";

const { base, supabase } = readStack();
const api = "/api/v1/auth/accounts";

let ada: Person;
let bob: Person;

beforeEach(async () => {
  [ada, bob] = await Promise.all([createPerson(), createPerson()]);
});
afterEach(async () => {
  await Promise.all([ada, bob].map(deletePerson));
});

async function browserWithBoth(): Promise<Browser> {
  const browser = await enter(ada);
  await browser.post("/add-account", { email: bob.email, password: bob.password });
  expect(await whoIs(browser)).toBe(bob.id);
  return browser;
}

/** Opens another tab of the browser, with its own copy of the cookies. */
const tabOf = (browser: Browser) => openBrowser(base, { cookie: browser.cookie() });
const switchTo = (browser: Browser, { id: accountId }: Person) => browser.postJson(`${api}/switch`, { accountId });
const whoIs = async (browser: Browser) => {
  const answer = await browser.get("/api/v1/auth/session");
  return answer.status === 200 ? (JSON.parse(answer.text).user.id as string) : null;
};
const at = <Item>(list: readonly Item[], index: number) => list[index % list.length] as Item;

/** Expects that each of the browser's accounts can be switched to. */
async function expectBothUsable(browser: Browser): Promise<void> {
  for (const person of [ada, bob, ada]) {
    expect((await switchTo(browser, person)).status).toBe(200);
    expect(await whoIs(browser)).toBe(person.id);
  }
}

const deviceCookieOf = (browser: Browser) => /gh_device=[^;]+/.exec(browser.cookie())?.[0] ?? "";

/**
 * Replaces the active account's access token in the vault with an expired one and returns only the device's cookie, so
 * that the next visit refreshes.
 */
async function age(browser: Browser): Promise<string> {
  const vault = await openTestVault();
  const jar = createCookieJar(browser.cookie());
  const device = readDeviceCookie(jar, { origin: base, cookie: vault.keys.cookie });
  if (!device) throw new Error("no device");
  const opened = await vault.open(device);
  if (!opened?.vault) throw new Error("no account is active");
  const session = await vault.unseal(device, opened.vault);
  if (!session) throw new Error("not ours");
  const aged = await sealSession(await expired(session), {
    keys: vault.keys,
    deviceId: device.id,
    userId: opened.vault.userId,
  });
  await query("update private.account_vault_entries set sealed = $3 where device_id = $1 and user_id = $2", [
    device.id,
    opened.vault.userId,
    aged.sealed,
  ]);
  return deviceCookieOf(browser);
}

describe("every account still works after many concurrent requests", () => {
  test("every account still works after switches back and forth in one browser", async () => {
    const browser = await browserWithBoth();
    const tabs = Array.from({ length: atOnce }, () => tabOf(browser));
    const answers = await Promise.all(tabs.map((tab, index) => switchTo(tab, at([ada, bob], index))));
    const statuses = answers.map(({ status }) => status);
    // A request that waits too long for other requests gets a 503. No request asks for a sign-in.
    expect(statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
    expect(statuses).toContain(200);
    const active = new Set(await Promise.all(tabs.slice(0, 5).map(whoIs)));
    expect(active.size).toBe(1);
    await expectBothUsable(at(tabs, 7));
  }, 60_000);

  test("every account still works after refreshes during switches", async () => {
    const browser = await browserWithBoth();
    const aged = await age(browser);
    const visits = Array.from({ length: atOnce }, (_, index) => {
      const tab = openBrowser(base, { cookie: aged });
      return index % 5 === 0 ? switchTo(tab, at([ada, bob], index / 5)) : tab.get("/api/v1/auth/session");
    });
    const answers = await Promise.all(visits);
    expect(answers.map(({ status }) => status).filter((status) => status !== 200 && status !== 503)).toEqual([]);
    for (const { status, text } of answers) {
      if (status === 200 && text.includes("activeAccountId")) {
        // One response never mixes two accounts.
        const { user, activeAccountId } = JSON.parse(text);
        expect(user.id).toBe(activeAccountId);
        expect(user.email).toBe(user.id === ada.id ? ada.email : bob.email);
      }
    }
    await expectBothUsable(tabOf(browser));
  }, 60_000);

  test("accounts stay signed out if one tab signs out of all of them during switches", async () => {
    const browser = await browserWithBoth();
    const tabs = Array.from({ length: atOnce }, () => tabOf(browser));
    await Promise.all(
      tabs.map((tab, index) => (index === 20 ? tab.post("/logout", {}) : switchTo(tab, at([ada, bob], index)))),
    );
    for (const tab of [browser, ...tabs.slice(0, 10)]) expect(await whoIs(tab)).toBeNull();
    for (const { id } of [ada, bob]) {
      expect(await query("select from auth.sessions where user_id = $1", [id])).toEqual([]);
    }
  }, 60_000);

  test("an account stays active if one tab signs out of another account during switches", async () => {
    const browser = await browserWithBoth();
    const tabs = Array.from({ length: atOnce }, () => tabOf(browser));
    await Promise.all(
      tabs.map((tab, index) =>
        index === 20 ? tab.sendJson("DELETE", `${api}/${ada.id}`) : switchTo(tab, at([ada, bob], index)),
      ),
    );
    const survivor = tabOf(at(tabs, 20));
    expect((await switchTo(survivor, bob)).status).toBe(200);
    expect(await whoIs(survivor)).toBe(bob.id);
    expect((await switchTo(survivor, ada)).status).toBe(404);
    expect(await query("select from auth.sessions where user_id = $1", [ada.id])).toEqual([]);
  }, 60_000);
});

describe("account switches on a separate server", () => {
  let running: WatchedWeb | undefined;
  afterAll(() => running?.stop());

  /** Starts the server unless it is running. Consecutive tests share it. */
  async function serverWith(trouble: Trouble = {}): Promise<WatchedWeb> {
    if (!running || running.child.signalCode) running = await startWatchedWeb(supabase, vaultSettings());
    await running.trouble(trouble);
    return running;
  }

  test("a signed-in page reads its session with one database call and without calling the identity backend", async () => {
    const browser = await browserWithBoth();
    const web = await serverWith();
    const visit = () => openBrowser(web.base, { cookie: browser.cookie() }).get("/settings/profile");
    // The backend's keys are fetched only once.
    await visit();
    const before = web.calls().length;
    expect((await visit()).status).toBe(200);
    const calls = web.calls().slice(before);
    expect(calls.filter((path) => path.startsWith("/auth/"))).toEqual([]);
    expect(calls.filter((path) => path.includes("session_state") || path.includes("device"))).toEqual([
      "/rest/v1/rpc/device_session_state",
    ]);
  }, 60_000);

  test("a switch makes at most two calls to the identity backend, even if both sessions need a refresh", async () => {
    const browser = await browserWithBoth();
    const web = await serverWith();
    for (const person of [ada, bob]) {
      const tab = openBrowser(web.base, { cookie: person === ada ? await age(browser) : browser.cookie() });
      if (person === ada) await openBrowser(web.base).get("/login");
      const before = web.calls().length;
      expect((await switchTo(tab, person)).status).toBe(200);
      const calls = web.calls().slice(before);
      const tokens = calls.filter((path) => path.startsWith("/auth/") && !path.endsWith("/jwks.json"));
      expect(tokens.length).toBeLessThanOrEqual(2);
      expect(tokens.every((path) => path === "/auth/v1/token")).toBe(true);
      // Activating the account has already released the device's switch lease, so no separate call is needed.
      expect(calls.some((path) => path.endsWith("/end_account_switch"))).toBe(false);
    }
  }, 60_000);

  test.each([
    ["the identity backend", "/auth/v1/token"],
    ["the database", "activate_account"],
  ])(
    "a server that cannot reach %s answers 503 and keeps every account",
    async (_, call) => {
      const browser = await browserWithBoth();
      const web = await serverWith({ unreachable: call });
      const tab = openBrowser(web.base, { cookie: browser.cookie() });
      const answer = await switchTo(tab, ada);
      expect([answer.status, JSON.parse(answer.text).code]).toEqual([503, "AUTH_UNAVAILABLE"]);
      const form = await tab.post("/accounts", { accountId: ada.id });
      expect([form.status, form.words]).toEqual([503, expect.stringContaining("You’re still signed in.")]);
      expect(await whoIs(tab)).toBe(bob.id);
      await expectBothUsable(browser);
    },
    60_000,
  );

  test.each([
    ["device_session_state", (browser: Browser) => browser.cookie()],
    ["open_account_device", deviceCookieOf],
    // Removes the mark of a merged addition, so that the server calls take_additions.
    ["take_additions", (browser: Browser) => browser.cookie().replace(/(gh_added_[^;]+)\.[0-9a-f]{8}(?=;|$)/, "$1")],
  ])(
    "a server that fails to call %s ends no session and redirects no one to sign-in",
    async (call, cookieOf) => {
      const browser = await browserWithBoth();
      const web = await serverWith({ unreachable: call });
      const tab = () => openBrowser(web.base, { cookie: cookieOf(browser) });
      const answers = await Promise.all([
        tab().postJson(`${api}/logout`, {}),
        switchTo(tab(), ada),
        tab().sendJson("DELETE", `${api}/${ada.id}`),
        tab().sendJson("PATCH", `${api}/current`, { route: "/settings/profile" }),
      ]);
      expect(answers.map(({ status }) => status)).toEqual([503, 503, 503, 503]);
      await expectBothUsable(browser);
    },
    60_000,
  );

  test("a switch that is refused with 401 still returns 401 if its lease cannot be released", async () => {
    const browser = await browserWithBoth();
    await query("delete from auth.sessions where user_id = $1", [ada.id]);
    const web = await serverWith({ unreachable: "end_account_switch" });
    const before = web.output().length;
    const tab = openBrowser(web.base, { cookie: browser.cookie() });
    expect((await switchTo(tab, ada)).status).toBe(401);
    expect(web.output().slice(before)).toContain("lease was not released");
    expect(await whoIs(tab)).toBe(bob.id);
  }, 60_000);

  test("if a server loses the database's response to a sign-in, the server retries and keeps every account", async () => {
    const browser = await enter(ada);
    const web = await serverWith({ losesAnswer: "add_account" });
    const tab = openBrowser(web.base, { cookie: browser.cookie() });
    expect((await tab.post("/add-account", { email: bob.email, password: bob.password })).location).toBe("/");
    expect(await whoIs(tab)).toBe(bob.id);
    await expectBothUsable(tab);
  }, 60_000);

  test("a server with a new secret keeps and reseals existing sessions while the old secret is configured as a previous secret", async () => {
    const browser = await browserWithBoth();
    const keyOf = async ({ id }: Person) =>
      (await query<{ key_id: string }>("select key_id from private.account_vault_entries where user_id = $1", [id]))[0]
        ?.key_id;
    const before = await keyOf(bob);
    const fresh = "a secret that has just been put in the old one's place";
    const { WEB_MULTI_ACCOUNT_SESSION_SECRET: old = "" } = vaultSettings();
    const start = (env: Record<string, string>) =>
      startWeb(supabase.url, {
        env: { SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey, SUPABASE_SECRET_KEY: supabase.secretKey, ...env },
      });
    const [rotated, without] = await Promise.all([
      start({ WEB_MULTI_ACCOUNT_SESSION_SECRET: fresh, WEB_MULTI_ACCOUNT_PREVIOUS_SECRETS: old }),
      start({ WEB_MULTI_ACCOUNT_SESSION_SECRET: "one that has nothing to do with any other here" }),
    ]);
    try {
      expect(await whoIs(openBrowser(without.base, { cookie: browser.cookie() }))).toBeNull();
      const tab = openBrowser(rotated.base, { cookie: browser.cookie() });
      expect(await whoIs(tab)).toBe(bob.id);
      expect(await keyOf(bob)).not.toBe(before);
      expect((await switchTo(tab, ada)).status).toBe(200);
      expect(await keyOf(ada)).toBe(await keyOf(bob));
      expect(await whoIs(tab)).toBe(ada.id);
    } finally {
      await Promise.all([rotated.stop(), without.stop()]);
    }
  }, 60_000);

  test.each(["begin_account_switch", "store_account_session", "/auth/v1/token", "activate_account"])(
    "a server that is killed after %s loses no account",
    async (step) => {
      const browser = await browserWithBoth();
      const web = await serverWith({ dieAfter: step });
      const tab = openBrowser(web.base, { cookie: browser.cookie() });
      await expect(switchTo(tab, ada)).rejects.toThrow();
      await expect.poll(() => web.child.signalCode).toBe("SIGKILL");
      // Expires the lease early, so that the test does not wait for it.
      await query(
        `update private.account_devices d set lease_expires_at = now()
         from private.account_vault_entries e
         where e.device_id = d.id and e.user_id = $1 and d.lease_id is not null`,
        [ada.id],
      );
      expect(await whoIs(browser)).toBe(step === "activate_account" ? ada.id : bob.id);
      await expectBothUsable(browser);
    },
    60_000,
  );
});
