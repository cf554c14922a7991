import { afterEach, beforeEach, expect, test } from "vitest";
import { expired, keepSession } from "../../scripts/test/keep-session.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openBrowser } from "../testing/browser.ts";
import { newAddress, visitorHeaders } from "../testing/visitor.ts";

const { base } = readStack();
let ada: Person;
let bob: Person;

beforeEach(async () => {
  [ada, bob] = await Promise.all([createPerson(), createPerson()]);
});
afterEach(async () => {
  await Promise.all([ada, bob].map(deletePerson));
});

async function prefetch(path: string, cookie: string, purpose = "prefetch") {
  const headers = { ...visitorHeaders(newAddress()), accept: "text/html", "sec-purpose": purpose, cookie };
  const response = await fetch(new URL(path, base), { redirect: "manual", headers });
  return { status: response.status, setCookies: response.headers.getSetCookie(), text: await response.text() };
}

/** Returns everything that is stored about the accounts' browsers and sessions. */
async function readStored(): Promise<unknown> {
  const rows = await query(
    `select to_jsonb(e) as stored from private.account_vault_entries e where user_id = any($1)
     union all
     select to_jsonb(d) from private.account_devices d
       where id in (select device_id from private.account_vault_entries where user_id = any($1))
     union all
     select to_jsonb(s) from auth.sessions s where user_id = any($1)
     union all
     select to_jsonb(t) from auth.refresh_tokens t where user_id::uuid = any($1)
     union all
     select to_jsonb(l) from public.security_events l where user_id = any($1)`,
    [[ada.id, bob.id]],
  );
  return rows.map(({ stored }) => JSON.stringify(stored)).sort();
}

/** Returns the cookies of a browser whose access token has expired. */
async function expiredCookie(): Promise<string> {
  const [, value = ""] = /-auth-token=base64-([\w-]+)/.exec((await enter(ada)).cookie()) ?? [];
  return keepSession(await expired(JSON.parse(Buffer.from(value, "base64url").toString())));
}

/** Returns the cookies of a browser that has added an account, which its next request would take. */
async function addedCookie(): Promise<string> {
  const browser = await enter(ada);
  await browser.post("/add-account", { email: bob.email, password: bob.password });
  return browser.cookie();
}

test.each([
  ["is answered for a session that needs nothing", async () => (await enter(ada)).cookie(), 200],
  ["is refused for a session that must be renewed", expiredCookie, 503],
  ["is refused for a browser whose added account must be stored", addedCookie, 503],
  [
    "is refused for a browser with a saved form, which is shown only once",
    async () => `${(await enter(ada)).cookie()}; gh_kept_form=x`,
    503,
  ],
])("a prefetch %s, sets no cookie and records nothing", async (_, cookieOf, status) => {
  const cookie = await cookieOf();
  const before = await readStored();
  const answer = await prefetch("/settings/profile", cookie);
  expect(answer).toMatchObject({ status, setCookies: [] });
  expect(await readStored()).toEqual(before);
  expect((await openBrowser(base, { cookie }).get("/settings/profile")).status).toBe(200);
});

test("a prefetched page is marked, so that it is confirmed before it is shown; other pages are not", async () => {
  const browser = await enter(ada);
  expect((await prefetch("/settings/profile", browser.cookie())).text).toMatch(/<html[^>]* data-unconfirmed="20/);
  expect((await browser.get("/settings/profile")).text).not.toMatch(/<html[^>]* data-unconfirmed/);
});

test.each(["/login", "/accounts", "/settings/security/export", "/api/v1/auth/session", "/oauth/authorize"])(
  "refuses to prefetch %s, which is not a page in a frame",
  async (path) => {
    expect(await prefetch(path, (await enter(ada)).cookie())).toMatchObject({ status: 503, setCookies: [], text: "" });
  },
);

test("refuses to prerender a page, whose scripts would run before it is opened", async () => {
  const answer = await prefetch("/settings/profile", (await enter(ada)).cookie(), "prefetch;prerender");
  expect(answer).toMatchObject({ status: 503, setCookies: [], text: "" });
});

test("an answer that changes something makes the browser drop its prefetched pages", async () => {
  const browser = await enter(ada);
  const cleared = '"prefetchCache", "prerenderCache"';
  expect((await browser.get("/settings/profile")).headers.get("clear-site-data")).toBeNull();
  expect((await browser.post("/theme", { theme: "dark" })).headers.get("clear-site-data")).toBe(cleared);
  expect((await browser.post("/logout", {})).headers.get("clear-site-data")).toBe(cleared);
});
