import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { borrowFaultyWeb, type FaultyWeb } from "../../scripts/test/faulty-web.ts";
import { openBrowser } from "../testing/browser.ts";

const email = `${crypto.randomUUID()}@integration.gatehouse.test`;
const logoutPath = "/auth/v1/logout";
const sameOrigin = { "sec-fetch-site": "same-origin" };
let { backend, web } = {} as FaultyWeb;

beforeAll(async () => {
  ({ backend, web } = await borrowFaultyWeb());
});
beforeEach(() => {
  backend.headers.clear();
});
afterEach(() => {
  Object.assign(backend, { refresh: "ok", state: "ok", logout: "ok", verify: "ok" });
  backend.vault = "ok";
});

const authCookies = (response: Response) =>
  response.headers.getSetCookie().filter((value) => value.startsWith("sb-127-auth-token"));
const post = (path: string, fields: Record<string, string>, cookie = "") =>
  web.fetch(path, { method: "POST", headers: { ...sameOrigin, cookie }, body: new URLSearchParams(fields) });

describe("signing out", () => {
  test("signing out works without the identity backend while the database is available", async () => {
    backend.logout = "down";
    const response = await post("/logout", {}, await backend.cookieOf(await backend.session()));
    expect(response.headers.get("location")).toBe("/login");
    expect(backend.headers.has(logoutPath)).toBe(false);
  });

  test.each(["down", "hang"] as const)(
    "if neither the database nor the backend (%s) can end the session, signing out says so",
    async (outage) => {
      const valid = await backend.cookieOf(await backend.session());
      const expired = await backend.cookieOf(await backend.session({ expiresIn: -10 }));
      Object.assign(backend, { logout: outage, refresh: outage });
      backend.vault = "down";
      for (const cookie of [valid, expired]) {
        const response = await post("/logout", {}, cookie);
        expect(response.headers.get("location")).toBe("/login?signedOutHereOnly");
        expect(authCookies(response).join()).toContain("Max-Age=0");
      }
      const page = await web.fetch("/login?signedOutHereOnly");
      expect(await page.text()).toContain("we couldn’t end the session on our servers");
    },
  );

  test("if the database can't end the sessions of a browser's other accounts, signing out says so", async () => {
    const browser = openBrowser(web.base, { cookie: await backend.cookieOf(await backend.session()) });
    await backend.newPerson();
    await browser.post("/add-account", { email: backend.person.email, password: backend.person.password });
    expect(JSON.parse((await browser.get("/api/v1/auth/accounts")).text).accounts).toHaveLength(2);
    const other = openBrowser(web.base, { cookie: browser.cookie() });
    backend.vault = "down";
    expect((await browser.post("/logout", {})).location).toBe("/login?signedOutHereOnly");
    expect((await other.postJson("/api/v1/auth/accounts/logout-all", {})).status).toBe(503);
    expect(backend.queries.get(logoutPath)).toBe("scope=local");
  });

  test("signing out does not call the identity backend without a session", async () => {
    expect((await post("/logout", {})).headers.get("location")).toBe("/login");
    expect(backend.headers.has(logoutPath)).toBe(false);
  });

  test("after a sign-out, a late request does not restore the session cookie from a cached refresh", async () => {
    const cookie = await backend.cookieOf(await backend.session({ expiresIn: -10 }));
    expect(authCookies(await web.fetch("/signup/check-mail", { headers: { cookie } })).join()).toContain("base64-");
    await backend.endSessions();
    for (const path of ["/signup/check-mail", "/no/such/page", "/auth/confirm"]) {
      const late = await web.fetch(path, { headers: { cookie } });
      expect(authCookies(late).join()).not.toContain("base64-");
    }
  });
});

describe("signing in by password or by emailed link", () => {
  const link = { token_hash: "a".repeat(56), type: "signup" };
  const ways: [string, Record<string, string>][] = [
    ["/login", { email, password: "three unrelated words" }],
    ["/auth/confirm", link],
  ];

  test.each(ways)("a sign-in at %s creates a session and a device", async (path, fields) => {
    const response = await post(path, fields, await backend.cookieOf(await backend.session()));
    expect(response.headers.get("location")).toBe("/");
    expect(authCookies(response).join()).toContain("base64-");
    expect(response.headers.getSetCookie().join()).toMatch(/gh_(device|added_\w{8})=/);
  });

  test.each<[string, Record<string, string>, object]>([
    ["/login", { email, password: "wrong" }, { refresh: { status: 400, code: "invalid_credentials" } }],
    ["/auth/confirm", link, { verify: "down" }],
  ])("a sign-in that fails at %s keeps the previous session", async (path, fields, failure) => {
    const cookie = await backend.cookieOf(await backend.session());
    Object.assign(backend, failure);
    expect(authCookies(await post(path, fields, cookie))).toEqual([]);
    expect(backend.headers.has(logoutPath)).toBe(false);
  });

  test.each(ways)(
    "a sign-in at %s that could not be stored signs no one in, and its session is ended",
    async (path, fields) => {
      backend.vault = "down";
      const response = await post(path, fields);
      expect(response.status).toBe(503);
      expect(authCookies(response).join()).not.toContain("base64-");
      expect(backend.queries.get(logoutPath)).toBe("scope=local");
    },
  );
});

test("confirming an email can be retried if the backend did not answer", async () => {
  backend.verify = "down";
  const link = { token_hash: "b".repeat(56), type: "recovery", next: "/workspaces" };
  const response = await post("/auth/confirm", link);
  expect(response.status).toBe(503);
  const html = await response.text();
  expect(html).toContain("Reset your password");
  expect(html).toContain("We can’t reach the sign-in service right now");
  for (const [name, value] of Object.entries(link)) expect(html).toContain(`name="${name}" value="${value}"`);
});
