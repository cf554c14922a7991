import { createClient } from "@supabase/supabase-js";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { upkeepTask } from "../schedule/upkeep.ts";
import { type Browser, openBrowser } from "../testing/browser.ts";

const { base, supabase } = readStack();
const api = "/api/v1/auth/accounts";

interface Listed {
  activeAccountId: string | null;
  accounts: {
    id: string;
    email: string;
    active: boolean;
    requiresReauth: boolean;
    lastRoute: string | null;
    lastActiveAt: string;
    addedAt: string;
  }[];
}

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
const list = async (browser: Browser): Promise<Listed> => JSON.parse((await browser.get(api)).text);
const whoIs = async (browser: Browser) => {
  const answer = await browser.get("/api/v1/auth/session");
  return answer.status === 200 ? (JSON.parse(answer.text) as { user: { id: string }; sessionId: string }) : null;
};
const switchTo = (browser: Browser, { id: accountId }: Person, where: object = {}) =>
  browser.postJson(`${api}/switch`, { accountId, ...where });
const sessionsOf = async ({ id }: Person) =>
  (await query<{ id: string }>("select id from auth.sessions where user_id = $1", [id])).map((row) => row.id);

/** Creates a browser in which all these people are signed in, the last one active. */
async function browserWith(first: Person, ...others: Person[]): Promise<Browser> {
  const browser = await enter(first);
  for (const person of others) {
    expect((await add(browser, person)).location).toBe("/");
    // The next request adds the account to the vault.
    expect((await whoIs(browser))?.user.id).toBe(person.id);
  }
  return browser;
}

describe("adding an account by sign-in", () => {
  test("the page for signing in again to the active account doesn't say that the account stays signed in", async () => {
    const browser = await browserWith(ada, bob);
    const stays = `You’ll stay signed in as ${bob.email}.`;
    expect((await browser.get(`/add-account?account=${ada.id}`)).words).toContain(stays);
    expect((await browser.get(`/add-account?account=${bob.id}`)).words).not.toContain(stays);
  });

  test("a second sign-in adds an account and ends no session", async () => {
    const browser = await browserWith(ada, bob, cid);
    const { activeAccountId, accounts } = await list(browser);
    expect(activeAccountId).toBe(cid.id);
    expect(accounts.map(({ id, active, requiresReauth }) => [id, active, requiresReauth])).toEqual([
      [cid.id, true, false],
      [bob.id, false, false],
      [ada.id, false, false],
    ]);
    expect(accounts[0]).toMatchObject({ email: cid.email, lastRoute: null });
    for (const time of ["lastActiveAt", "addedAt"] as const) expect(accounts[0]?.[time]).toMatch(/^\d{4}-.*Z$/);
    for (const person of [ada, bob, cid]) expect(await sessionsOf(person)).toHaveLength(1);
  });

  test("a sign-in to an account that is already in the browser replaces its session", async () => {
    const browser = await browserWith(ada, bob);
    const [before] = await sessionsOf(ada);
    await add(browser, ada);
    expect((await whoIs(browser))?.user.id).toBe(ada.id);
    const after = await sessionsOf(ada);
    expect(after).toHaveLength(1);
    expect(after).not.toContain(before);
    expect((await list(browser)).accounts).toHaveLength(2);
  });

  test("adding an account gives the browser a new device secret, and the old secret stops working once the new one is used", async () => {
    const browser = await enter(ada);
    const planted = openBrowser(base, { cookie: browser.cookie() });
    expect((await whoIs(planted))?.user.id).toBe(ada.id);
    await add(browser, bob);
    expect((await list(planted)).accounts.map(({ id }) => id)).toEqual([ada.id]);
    expect((await whoIs(browser))?.user.id).toBe(bob.id);
    expect(await whoIs(planted)).toBeNull();
    expect((await planted.get(api)).status).toBe(401);
  });

  test("a sign-in ignores a forged device cookie and another account's session cookie", async () => {
    const others = await enter(bob);
    const deviceOf = (browser: Browser) => /gh_device=([^;]+)/.exec(browser.cookie())?.[1] ?? "";
    const [id = "", , keyId = "", signature = ""] = deviceOf(others).split(".");
    const forged = [id, "A".repeat(43), keyId, signature].join(".");
    const auth =
      others
        .cookie()
        .split("; ")
        .find((cookie) => cookie.startsWith("sb-")) ?? "";
    for (const cookie of [`gh_device=${forged}`, auth, `gh_device=${forged}; ${auth}`]) {
      const browser = openBrowser(base, { cookie });
      expect(await whoIs(browser)).toBeNull();
      await browser.post("/login", { email: ada.email, password: ada.password });
      expect((await whoIs(browser))?.user.id).toBe(ada.id);
      expect(deviceOf(browser).split(".")[0]).not.toBe(id);
      expect((await list(browser)).accounts.map((account) => account.id)).toEqual([ada.id]);
    }
  });
});

describe("switching accounts", () => {
  test("switching accounts opens the account's last page, or the page that the caller requests", async () => {
    const browser = await browserWith(ada, bob);
    const there = await switchTo(browser, ada, { currentRoute: "/settings/profile?x=1" });
    expect([there.status, JSON.parse(there.text)]).toEqual([200, { accountId: ada.id, redirectTo: "/" }]);
    expect((await whoIs(browser))?.user.id).toBe(ada.id);
    const back = await switchTo(browser, bob, { currentRoute: "/login" });
    expect(JSON.parse(back.text).redirectTo).toBe("/settings/profile?x=1");
    const wanted = await switchTo(browser, ada, { targetRoute: "/add-account" });
    expect(JSON.parse(wanted.text).redirectTo).toBe("/add-account");
    const foreign = await switchTo(browser, bob, { targetRoute: "https://evil.example/x" });
    expect(JSON.parse(foreign.text).redirectTo).toBe("/settings/profile?x=1");
    expect((await list(browser)).accounts.find(({ id }) => id === ada.id)?.lastRoute).toBeNull();
  });

  test("a switch to an account that is not in this browser returns 404, or 401 if the browser has no device cookie", async () => {
    const browser = await enter(ada);
    const unknown = await switchTo(browser, bob);
    expect([unknown.status, JSON.parse(unknown.text)]).toMatchObject([
      404,
      { code: "NOT_FOUND", requiresReauth: true },
    ]);
    expect((await switchTo(openBrowser(base), ada)).status).toBe(401);
    // Callers without a device learn nothing about the validity of the body.
    expect((await openBrowser(base).postJson(`${api}/switch`, { nonsense: true })).status).toBe(401);
    expect((await openBrowser(base).sendJson("DELETE", `${api}/nonsense`)).status).toBe(401);
    expect((await whoIs(browser))?.user.id).toBe(ada.id);
  });

  test("a switch that names no account is rejected as invalid", async () => {
    const browser = await enter(ada);
    expect((await browser.post("/accounts", { intent: "switch" })).status).toBe(400);
    expect((await whoIs(browser))?.user.id).toBe(ada.id);
  });

  test("a switch to an account whose session has ended removes only that account from the browser", async () => {
    const browser = await browserWith(ada, bob, cid);
    await query("delete from auth.sessions where user_id = $1", [ada.id]);
    expect((await list(browser)).accounts.find(({ id }) => id === ada.id)).toMatchObject({ requiresReauth: true });
    const refused = await switchTo(browser, ada);
    expect([refused.status, JSON.parse(refused.text)]).toMatchObject([
      401,
      { code: "REAUTH_REQUIRED", requiresReauth: true },
    ]);
    expect((await list(browser)).accounts.map(({ id }) => id)).toEqual([cid.id, bob.id]);
    expect((await whoIs(browser))?.user.id).toBe(cid.id);
  });

  test("if the identity backend rejects an account's tokens during a switch, the account is removed from the browser", async () => {
    const browser = await browserWith(ada, bob);
    await query(
      "update auth.refresh_tokens set revoked = true, updated_at = now() - interval '1 hour' where user_id = $1",
      [ada.id],
    );
    const refused = await switchTo(browser, ada);
    expect([refused.status, JSON.parse(refused.text).requiresReauth]).toEqual([401, true]);
    expect((await list(browser)).accounts.map(({ id }) => id)).toEqual([bob.id]);
  });

  test.each([
    ["29 days without use succeeds", 29, 200],
    ["30 days without use requires a sign-in", 30, 401],
  ])("a switch to an account after %s", async (_, days, status) => {
    const browser = await browserWith(ada, bob);
    await query(
      "update private.account_vault_entries set last_active_at = now() - make_interval(days => $2) where user_id = $1",
      [ada.id, days],
    );
    expect((await switchTo(browser, ada)).status).toBe(status);
  });

  test("switching accounts survives a lost response: the old device secret works until the browser has received the new one", async () => {
    const browser = await browserWith(ada, bob);
    const lost = openBrowser(base, { cookie: browser.cookie() });
    expect((await switchTo(lost, ada)).status).toBe(200);
    expect((await whoIs(browser))?.user.id).toBe(ada.id);
    expect(browser.cookie()).toBe(lost.cookie());
    await query(
      `update private.account_devices set previous_until = now() - interval '1 second'
       where active_user_id = $1 and previous_until is not null`,
      [ada.id],
    );
    expect((await switchTo(browser, bob)).status).toBe(200);
  });
});

describe("an unreadable vault entry", () => {
  const damage: [string, string][] = [
    ["with flipped bits", "translate(sealed, 'abcdefghij', 'bcdefghija')"],
    ["that was truncated", "substr(sealed, 1, 60)"],
    ["sealed with a key that is no longer listed", "sealed, key_id = 'gone'"],
    [
      "that belongs to another user",
      "(select o.sealed from private.account_vault_entries o where o.user_id = $2 limit 1)",
    ],
  ];

  test.each(damage)(
    "if an account has a vault entry %s, that account must sign in again and the other accounts stay signed in",
    async (_, value) => {
      const browser = await browserWith(ada, bob);
      const values = value.includes("$2") ? [ada.id, bob.id] : [ada.id];
      await query(`update private.account_vault_entries set sealed = ${value} where user_id = $1`, values);
      const refused = await switchTo(browser, ada);
      expect([refused.status, JSON.parse(refused.text)]).toMatchObject([401, { requiresReauth: true }]);
      expect((await list(browser)).accounts.map(({ id }) => id)).toEqual([bob.id]);
      expect((await whoIs(browser))?.user.id).toBe(bob.id);
      expect((await add(browser, ada)).location).toBe("/");
    },
  );

  test("a vault entry of another device is dropped", async () => {
    const [browser, other] = [await browserWith(ada, bob), await enter(ada)];
    await query(
      `update private.account_vault_entries e set sealed = o.sealed, key_id = o.key_id
       from private.account_vault_entries o
       where e.user_id = $1 and o.user_id = $1 and e.device_id <> o.device_id`,
      [ada.id],
    );
    expect((await switchTo(browser, ada)).status).toBe(401);
    // Sends only the device cookie, because the vault entry is not read while the session cookie is valid.
    const device = /gh_device=[^;]+/.exec(other.cookie())?.[0] ?? "";
    const bare = openBrowser(base, { cookie: device });
    expect(await whoIs(bare)).toBeNull();
    expect(await list(bare)).toEqual({ activeAccountId: null, accounts: [] });
    expect((await bare.get("/")).location).toBe("/login");
  });
});

describe("the browser's cookies", () => {
  test("cookies from a late response do not change the browser's active account", async () => {
    const browser = await browserWith(ada, bob);
    const late = openBrowser(base, { cookie: browser.cookie() }).cookie();
    await switchTo(browser, ada);
    const device = /gh_device=[^;]+/.exec(browser.cookie())?.[0] ?? "";
    const auth = late
      .split("; ")
      .filter((cookie) => cookie.startsWith("sb-"))
      .join("; ");
    const mixed = openBrowser(base, { cookie: `${auth}; ${device}` });
    expect((await whoIs(mixed))?.user.id).toBe(ada.id);
    expect(mixed.cookie()).not.toContain(auth);
    const without = openBrowser(base, { cookie: device });
    expect((await whoIs(without))?.user.id).toBe(ada.id);
  });

  test("cookies cannot plant another person's session on a signed-out browser", async () => {
    const stranger = await enter(bob);
    const planted = stranger
      .cookie()
      .split("; ")
      .filter((cookie) => cookie.startsWith("sb-"))
      .join("; ");
    const victim = openBrowser(base, { cookie: planted });
    expect(await whoIs(victim)).toBeNull();
    expect(victim.cookie()).toBe("");
    expect((await whoIs(stranger))?.user.id).toBe(bob.id);
  });

  test("ten accounts fit in 8 KB of cookies, and an eleventh account is refused and its session ended", async () => {
    const people = await Promise.all(Array.from({ length: 8 }, createPerson));
    const [tenth, eleventh] = [people[6], people[7]];
    const browser = await browserWith(ada, bob, cid, ...people.slice(0, 7));
    expect((await list(browser)).accounts).toHaveLength(10);
    expect(browser.cookie().length).toBeLessThan(8_192);
    if (!tenth || !eleventh) throw new Error("too few");
    expect((await browser.get("/add-account")).location).toBe("/accounts?full");
    expect((await add(browser, eleventh)).location).toBe("/accounts?full");
    expect(await sessionsOf(eleventh)).toEqual([]);
    expect((await whoIs(browser))?.user.id).toBe(tenth.id);
    expect((await add(browser, ada)).location).toBe("/");
    await Promise.all(people.map(deletePerson));
  }, 60_000);
});

test("PATCH /accounts/current saves an account's last page, and refuses paths such as the sign-in page", async () => {
  const browser = await enter(ada);
  const patch = async (route: string) => {
    const { status } = await browser.sendJson("PATCH", `${api}/current`, { route });
    return [status, (await list(browser)).accounts[0]?.lastRoute];
  };
  expect(await patch("/workspaces?tab=1")).toEqual([204, "/workspaces?tab=1"]);
  expect(await patch("/accounts")).toEqual([204, "/accounts"]);
  for (const route of [
    "/login",
    "/loginx",
    "/login?returnUrl=/",
    "/add-account",
    "/logout",
    "/auth/callback",
    "/api/v1/auth/session",
    "https://evil.example/",
    "//evil.example/",
  ]) {
    expect(await patch(route), route).toEqual([400, "/accounts"]);
  }
});

describe("signing out of one or all accounts", () => {
  test("signing out of the active account ends only its session and activates the most recently used account", async () => {
    const browser = await browserWith(ada, bob, cid);
    await switchTo(browser, ada);
    const answer = await browser.postJson(`${api}/logout`, {});
    expect([answer.status, JSON.parse(answer.text)]).toEqual([200, { activeAccountId: cid.id, redirectTo: "/" }]);
    expect((await whoIs(browser))?.user.id).toBe(cid.id);
    expect(await sessionsOf(ada)).toEqual([]);
    expect(await sessionsOf(bob)).toHaveLength(1);
    expect((await list(browser)).accounts.map(({ id }) => id)).toEqual([cid.id, bob.id]);
  });

  test("signing out of the last account leads to the sign-in page", async () => {
    const browser = await enter(ada);
    const answer = await browser.postJson(`${api}/logout`, {});
    expect(JSON.parse(answer.text)).toEqual({ activeAccountId: null, redirectTo: "/login" });
    expect(await whoIs(browser)).toBeNull();
  });

  test("signing out of another account leaves the active one unchanged", async () => {
    const browser = await browserWith(ada, bob);
    const answer = await browser.sendJson("DELETE", `${api}/${ada.id}`);
    expect([answer.status, JSON.parse(answer.text)]).toMatchObject([200, { activeAccountId: bob.id }]);
    expect(await sessionsOf(ada)).toEqual([]);
    expect((await whoIs(browser))?.user.id).toBe(bob.id);
    expect((await browser.sendJson("DELETE", `${api}/${ada.id}`)).status).toBe(404);
    expect((await browser.sendJson("DELETE", `${api}/nonsense`)).status).toBe(404);
  });

  test.each([
    ["logout-all", (browser: Browser) => browser.postJson(`${api}/logout-all`, {})],
    ["/logout", (browser: Browser) => browser.post("/logout", {})],
  ])("signing out of all accounts by %s ends every session and leaves no account cookie", async (_, signOut) => {
    const browser = await browserWith(ada, bob);
    const before = browser.cookie();
    await signOut(browser);
    for (const person of [ada, bob]) expect(await sessionsOf(person)).toEqual([]);
    expect(browser.cookie()).toMatch(/^(gh_last_method=\w+)?$/);
    const back = openBrowser(base, { cookie: before });
    expect(await whoIs(back)).toBeNull();
    expect((await back.get(api)).status).toBe(401);
    const rows = await query("select from private.account_devices where active_user_id = any ($1)", [[ada.id, bob.id]]);
    expect(rows).toEqual([]);
  });

  test("signing out of all accounts clears the cookies of pending approvals", async () => {
    const browser = await enter(ada);
    const response = await fetch(new URL(`${api}/logout-all`, base), {
      method: "POST",
      headers: { cookie: browser.cookie(), "sec-fetch-site": "same-origin" },
    });
    const headers = response.headers.getSetCookie().join("\n");
    expect(headers).toMatch(/^gh_qr=;.*Max-Age=0; Path=\/qr;/m);
    expect(headers).toMatch(/^gh_mfa_app=;.*Max-Age=0; Path=\/mfa;/m);
  });

  test("signing out expires the approval cookie", async () => {
    const browser = await browserWith(ada, bob);
    for (const path of [`${api}/logout`, `${api}/logout-all`]) {
      const response = await fetch(new URL(path, base), {
        method: "POST",
        headers: { cookie: browser.cookie(), "sec-fetch-site": "same-origin" },
      });
      expect(response.headers.getSetCookie().join("\n")).toMatch(/^ttr_mfa_mobile_approval=;.*Max-Age=0/m);
    }
  });
});

test("the sign-in page says why the browser's session ended, only in that browser", async () => {
  const [browser, elsewhere] = [await enter(ada), await enter(ada)];
  const path = `/api/v1/users/me/sessions/${(await browser.session()).sessionId}`;
  expect((await elsewhere.sendJson("DELETE", path)).status).toBe(204);
  expect((await browser.get("/workspaces")).location).toBe("/login?returnUrl=%2Fworkspaces");
  expect((await browser.get("/login")).words).toContain(
    `${ada.email} was signed out from another device. Sign in again.`,
  );
  expect((await openBrowser(base).get("/login")).words).not.toContain(ada.email);
  expect((await browser.get(api)).text).not.toContain("endReason");
});

test("the scheduled sweep ends idle sessions, and requires our server's key", async () => {
  const browser = await browserWith(ada, bob);
  await query(
    "update private.account_vault_entries set last_active_at = now() - interval '31 days' where user_id = $1",
    [ada.id],
  );
  const sweep = (SUPABASE_SECRET_KEY: string) =>
    upkeepTask({ SUPABASE_URL: supabase.url, SUPABASE_SECRET_KEY }, "sweep-account-devices").run(
      AbortSignal.timeout(10_000),
    );
  await expect(sweep(supabase.publishableKey)).rejects.toThrow(/permission denied/);
  await sweep(supabase.secretKey);
  expect(await sessionsOf(ada)).toEqual([]);
  expect(await sessionsOf(bob)).toHaveLength(1);
  expect((await list(browser)).accounts.map(({ id, requiresReauth }) => [id, requiresReauth])).toEqual([
    [bob.id, false],
    [ada.id, true],
  ]);
});

test("a bearer token sees only its own account and cannot switch", async () => {
  const { auth } = createClient(supabase.url, supabase.publishableKey, { auth: { persistSession: false } });
  const { data } = await auth.signInWithPassword(ada);
  const headers = { authorization: `Bearer ${data.session?.access_token}`, "content-type": "application/json" };
  const mine = await (await fetch(new URL(api, base), { headers })).json();
  expect(mine).toMatchObject({ activeAccountId: ada.id, accounts: [{ id: ada.id, email: ada.email, active: true }] });
  const body = JSON.stringify({ accountId: ada.id });
  expect((await fetch(new URL(`${api}/switch`, base), { method: "POST", headers, body })).status).toBe(401);
  expect((await fetch(new URL(`${api}/logout`, base), { method: "POST", headers })).status).toBe(200);
  expect(await sessionsOf(ada)).toEqual([]);
  // The session has ended, but its token has not expired yet. Signing out again succeeds and changes nothing.
  for (const again of ["logout", "logout-all"]) {
    expect((await fetch(new URL(`${api}/${again}`, base), { method: "POST", headers })).status, again).toBe(200);
  }
});
