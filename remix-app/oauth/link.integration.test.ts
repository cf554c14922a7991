import { createClient } from "@supabase/supabase-js";
import { describe, expect, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { keepSession } from "../../scripts/test/keep-session.ts";
import { query as runQuery } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { storedSession } from "../session/cookies.ts";
import { type Browser, openBrowser } from "../testing/browser.ts";
import { oauthJourney } from "../testing/oauth-journey.ts";
import { visitProvider } from "../testing/provider-visit.ts";

const stack = readStack();
const { base, supabase } = stack;
const journey = oauthJourney(stack);
const anon = createClient(supabase.url, supabase.publishableKey, { auth: { persistSession: false } });
const api = "/api/v1/users/me/identities";
const link = { intent: "link" };

interface Identities {
  identities: { id: string; provider: string; email: string; createdAt: string; lastSignInAt: string | null }[];
  canUnlink: boolean;
}

/** Calls the API with the headers that our own pages send. `headers` overrides them. */
async function call(path: string, { method = "GET", browser, headers = {}, json, form }: Call) {
  const response = await fetch(new URL(path, base), {
    method,
    redirect: "manual",
    headers: {
      "user-agent": "Test browser",
      "sec-fetch-site": "same-origin",
      ...(browser ? { cookie: browser.cookie() } : {}),
      ...(json ? { "content-type": "application/json" } : {}),
      ...headers,
    },
    ...(json ? { body: JSON.stringify(json) } : form ? { body: new URLSearchParams(form) } : {}),
  });
  const text = await response.text();
  const { code } = (text.startsWith("{") ? JSON.parse(text) : {}) as { code?: string };
  return { status: response.status, location: response.headers.get("location"), text, code, response };
}
interface Call {
  method?: string;
  browser?: Browser;
  headers?: Record<string, string>;
  json?: object;
  form?: Record<string, string>;
}

const identitiesOf = async (browser: Browser) => JSON.parse((await call(api, { browser })).text) as Identities;
/** Returns the linked-accounts card's message about what just happened. */
const noticeOf = async (browser: Browser) =>
  /id="linked-accounts".*?role="status".*?<div[^>]*>(.*?)<\/div>/s.exec(
    (await browser.get("/settings/security")).text,
  )?.[1];

/**
 * Starts linking an account and visits the provider, but does not return from it.
 * @returns the URL that the browser is sent back to
 */
async function wayBack(browser: Browser, email: string) {
  return journey.comeBack(await journey.setOut(browser, link), { email });
}

describe("a link to a provider's account", () => {
  test("linking completes when the browser that started it returns, and keeps the session", async () => {
    const { email, id, browser } = await journey.member();
    const sessions = await journey.sessionsOf(email);
    const elsewhere = journey.newEmail();
    const ended = await journey.signIn(browser, { email: elsewhere }, link);
    expect(ended).toMatchObject({ status: 302, location: "/settings/security#linked-accounts" });
    expect(await noticeOf(browser)).toContain("account is linked. You can sign in with it.");
    expect(await noticeOf(browser)).toBeUndefined();
    expect(await journey.sessionsOf(email)).toEqual(sessions);

    const { identities, canUnlink } = await identitiesOf(browser);
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    expect(canUnlink).toBe(true);
    expect(identities).toEqual([
      { id: expect.any(String), provider: "email", email, createdAt: time, lastSignInAt: expect.anything() },
      { id: expect.any(String), provider: journey.provider, email: elsewhere, createdAt: time, lastSignInAt: time },
    ]);
    expect(await journey.eventsOf(id)).toContainEqual({
      kind: "identity_linked",
      method: null,
      details: { provider: expect.any(String), email: elsewhere },
    });
    await expect
      .poll(async () => (await mailsTo(email)).map(({ subject }) => subject))
      .toContain("An account was linked to your Gatehouse account");

    const other = openBrowser(base);
    expect((await journey.signIn(other, { email: elsewhere })).location).toBe("/");
    expect(await journey.accountOf(elsewhere)).toBeUndefined();
    expect(await journey.sessionsOf(email)).toHaveLength(sessions.length + 1);
  });

  test("linking a provider account can be started through the API, as JSON and as a form", async () => {
    const { browser } = await journey.member();
    const path = `${api}/link/${journey.provider}`;
    const asked = await call(path, { method: "POST", browser, json: { returnTo: "/workspaces?a=b" } });
    expect(asked.status).toBe(200);
    expect(asked.response.headers.get("cache-control")).toContain("no-store");
    const { url } = JSON.parse(asked.text) as { url: string };
    const cookie = `${browser.cookie()}; ${asked.response.headers.getSetCookie()[0]?.split(";")[0]}`;
    const back = await journey.comeBack(url, { email: journey.newEmail() });
    const ended = await call(back, { headers: { cookie } });
    expect(ended).toMatchObject({ status: 302, location: "/workspaces?a=b" });

    const posted = await call(path, { method: "POST", browser, form: { returnTo: "https://evil.example/" } });
    expect(posted.status).toBe(303);
    expect(new URL(posted.location ?? "").origin).not.toBe(new URL(base).origin);
  });

  test.each([
    ["another site", { headers: { "sec-fetch-site": "cross-site" } }, 403, "CSRF_REJECTED"],
    ["a sibling origin", { headers: { "sec-fetch-site": "same-site" } }, 403, "CSRF_REJECTED"],
    ["a plain-text request", { headers: { "content-type": "text/plain" } }, 415, "UNSUPPORTED_MEDIA_TYPE"],
    ["JSON of the wrong shape", { json: { returnTo: 7 } }, 400, "INVALID_REQUEST"],
  ] as const)("refuses to start linking a provider account from %s", async (_, given, status, code) => {
    const { browser } = await journey.member();
    const path = `${api}/link/${journey.provider}`;
    expect(await call(path, { method: "POST", browser, json: {}, ...given })).toMatchObject({ status, code });
  });

  test("linking a provider account can be started only by a signed-in user, for an enabled provider, by POST", async () => {
    const { browser } = await journey.member();
    const path = `${api}/link/${journey.provider}`;
    expect(await call(path, { method: "POST", json: {} })).toMatchObject({ status: 401, code: "UNAUTHENTICATED" });
    expect(await call(`${api}/link/facebook`, { method: "POST", browser, json: {} })).toMatchObject({ status: 404 });
    expect(await call(path, { browser })).toMatchObject({ status: 405 });
    expect(await call(api, {})).toMatchObject({ status: 401 });
  });

  test.each([{}, { "content-type": "application/json" }])(
    "linking a provider account can be started without a request body (%j)",
    async (headers) => {
      const { browser } = await journey.member();
      const path = `${api}/link/${journey.provider}`;
      const asked = await call(path, { method: "POST", browser, headers: headers as Record<string, string> });
      expect(asked.status).toBe(200);
      expect(JSON.parse(asked.text)).toEqual({ url: expect.stringMatching(/^http/) });
    },
  );

  test.each(["json", "form"])(
    "a request to link a provider account is refused if its body has an unknown field (%s)",
    async (as) => {
      const { browser } = await journey.member();
      const fields = { returnTo: "/", returnUrl: "/" };
      const asked = await call(`${api}/link/${journey.provider}`, { method: "POST", browser, [as]: fields });
      expect(asked.status).toBe(400);
      if (as === "json") expect(JSON.parse(asked.text)).toMatchObject({ code: "INVALID_REQUEST", param: "returnUrl" });
    },
  );

  test("linking an already linked account changes nothing, and the page says so", async () => {
    const [mine, theirs] = [await journey.member(), await journey.member()];
    const elsewhere = journey.newEmail();
    await journey.signIn(theirs.browser, { email: elsewhere }, link);
    for (const { browser } of [mine, theirs]) {
      expect((await journey.signIn(browser, { email: elsewhere }, link)).location).toBe(
        "/settings/security#linked-accounts",
      );
      expect(await noticeOf(browser)).toContain("account is already linked");
    }
    expect(await journey.providersOf(mine.email)).toEqual(["email"]);
    expect(await journey.providersOf(theirs.email)).toEqual(["email", journey.provider].sort());
  });

  test("canceling at the provider links no account and shows a message", async () => {
    const { email, browser } = await journey.member();
    await journey.signIn(browser, { email: journey.newEmail(), cancel: true }, link);
    expect(await noticeOf(browser)).toContain("Nothing has changed");
    expect(await journey.providersOf(email)).toEqual(["email"]);
  });

  test.each<[string, (member: Awaited<ReturnType<typeof journey.member>>) => Promise<unknown>]>([
    ["has signed out", ({ browser }) => browser.post("/logout", {})],
    [
      "has switched to another account",
      async ({ browser }) => {
        const { email, password } = await journey.member();
        await browser.post("/logout", {});
        return browser.post("/login", { email, password });
      },
    ],
    [
      "has started another session",
      async ({ browser, email, password }) => {
        await browser.post("/logout", {});
        return browser.post("/login", { email, password });
      },
    ],
  ])("undoes the linking of a provider account if the person who started it %s", async (_, meanwhile) => {
    const member = await journey.member();
    const elsewhere = journey.newEmail();
    const back = await wayBack(member.browser, elsewhere);
    await meanwhile(member);
    expect((await member.browser.get(back)).location).toBe("/settings/security#linked-accounts");
    expect(await journey.providersOf(member.email)).toEqual(["email"]);
    expect(await journey.codeIsGood(back)).toBe(false);
  });
});

describe("a link started by a phone", () => {
  const appOrigin = "http://127.0.0.1:9";
  const phoneOf = async ({ email, password }: { email: string; password: string }) => {
    const { data } = await anon.auth.signInWithPassword({ email, password });
    return { authorization: `Bearer ${data.session?.access_token}` };
  };
  const path = () => `${api}/link/${journey.provider}`;
  const begin = async (headers: Record<string, string>, json?: object) => {
    const asked = await call(path(), { method: "POST", headers, ...(json ? { json } : {}) });
    expect([asked.status, asked.response.headers.getSetCookie()]).toEqual([200, []]);
    return JSON.parse(asked.text) as { url: string; state: string };
  };
  const complete = (headers: Record<string, string>, json: object) =>
    call(`${path()}/complete`, { method: "POST", headers, json });
  /** Visits the provider. @returns the code in the redirect to the app's own URL */
  const codeFor = async (url: string, email: string) => {
    const back = new URL(await visitProvider(url, { ourOrigin: appOrigin, email }));
    expect([back.pathname, back.searchParams.has("state")]).toEqual(["/linked", false]);
    return back.searchParams.get("code") ?? "";
  };

  test("ten concurrent completions of a link started by a phone link the provider's account only once", async () => {
    const member = await journey.member();
    const headers = await phoneOf(member);
    const elsewhere = journey.newEmail();
    const { url, state } = await begin(headers, { returnTo: `${appOrigin}/linked` });
    const code = await codeFor(url, elsewhere);
    const answers = await Promise.all(Array.from({ length: 10 }, () => complete(headers, { state, code })));
    expect(answers.map(({ status }) => status).sort()).toEqual([204, ...Array.from({ length: 9 }, () => 410)]);
    expect(await journey.codeIsGood(`${appOrigin}/linked?code=${code}`)).toBe(false);
    expect((await journey.signIn(openBrowser(base), { email: elsewhere })).location).toBe("/");
    expect(await journey.providersOf(member.email)).toEqual(["email", journey.provider].sort());
    expect((await journey.eventsOf(member.id)).filter(({ kind }) => kind === "identity_linked")).toHaveLength(1);
  });

  test("if a phone starts a provider link without an app URL, the provider returns to our callback, and only the phone can complete the link", async () => {
    const member = await journey.member();
    const headers = await phoneOf(member);
    for (const json of [undefined, {}, { returnTo: "/settings/security" }, { returnTo: `${base}/settings/security` }]) {
      const { url, state } = await begin(headers, json);
      expect(url).not.toContain(state.split(".")[0]);
      const back = await journey.comeBack(url, { email: journey.newEmail() });
      expect(back).toMatch(new RegExp(`^${base}/auth/callback\\?code=`));
      expect((await member.browser.get(back)).status).toBe(403);
      const code = new URL(back).searchParams.get("code") ?? "";
      expect(await complete(headers, { state, code })).toMatchObject({ status: 204 });
    }
  });

  test("a link started by a phone is valid only for its provider and its session", async () => {
    const member = await journey.member();
    const headers = await phoneOf(member);
    const otherProvider = journey.provider === "github" ? "azure" : "github";
    const elsewhere = { path: `${api}/link/${otherProvider}/complete`, headers };
    const laterSignIn = { path: `${path()}/complete`, headers: await phoneOf(member) };
    for (const given of [elsewhere, laterSignIn]) {
      const { url, state } = await begin(headers, { returnTo: `${appOrigin}/linked` });
      const code = await codeFor(url, journey.newEmail());
      const json = { state, code };
      const ended = await call(given.path, { method: "POST", headers: given.headers, json });
      expect(ended).toMatchObject({ status: 410, code: "GONE" });
    }
    expect((await identitiesOf(member.browser)).identities.map(({ provider }) => provider)).toEqual(["email"]);
  });

  test("a provider link started by a phone can't be completed by another account, with a wrong state, or from a browser session", async () => {
    const [mine, theirs] = [await journey.member(), await journey.member()];
    const [headers, others] = [await phoneOf(mine), await phoneOf(theirs)];
    const lured = await begin(headers, { returnTo: `${appOrigin}/linked` });
    const own = await begin(others, { returnTo: `${appOrigin}/linked` });
    // The victim's app has started a link of its own when it receives the attacker's code.
    const email = journey.newEmail();
    const code = await codeFor(lured.url, email);
    expect(await complete(others, { state: own.state, code })).toMatchObject({ status: 410, code: "GONE" });
    expect(await complete(others, { state: "x", code })).toMatchObject({ status: 410, code: "GONE" });
    expect(
      await call(`${path()}/complete`, { method: "POST", browser: mine.browser, json: { state: lured.state, code } }),
    ).toMatchObject({ status: 403, code: "FORBIDDEN" });
    // When another account tries to complete the link, the account that started it can no longer complete it either.
    expect(await complete(others, { state: lured.state, code })).toMatchObject({ status: 410, code: "GONE" });
    expect(await journey.providersOf(mine.email)).toEqual(["email"]);
    expect(await journey.providersOf(theirs.email)).toEqual(["email"]);
    expect(await complete(headers, { state: lured.state, code })).toMatchObject({ status: 410, code: "GONE" });
  });
});

describe("a provider link that an attacker tricks a victim into completing", () => {
  test("if an attacker tricks a victim into linking a provider account, the victim's next sign-in undoes the link", async () => {
    const attacker = await journey.member();
    const victim = openBrowser(base);
    const email = journey.newEmail();
    const address = await journey.setOut(attacker.browser, link);
    // The victim's browser goes to the provider and back without any of our cookies.
    const back = await journey.comeBack(address, { email });
    expect((await victim.get(back)).status).toBe(403);
    expect((await identitiesOf(attacker.browser)).identities.map(({ provider }) => provider)).toEqual(["email"]);

    // The attacker has the cookie and the state, but only a code that belongs to another visit.
    const own = new URL(await journey.comeBack(await journey.setOut(openBrowser(base)), { email: journey.newEmail() }));
    const guessed = new URL(back);
    guessed.searchParams.set("code", own.searchParams.get("code") ?? "");
    expect((await attacker.browser.get(guessed.href)).location).toBe("/settings/security#linked-accounts");
    expect((await identitiesOf(attacker.browser)).identities).toHaveLength(1);

    const first = await journey.signIn(victim, { email });
    expect(first.location).toMatch(/^\/login\?oauth=unfinished_link/);
    expect(await journey.providersOf(attacker.email)).toEqual(["email"]);
    expect((await journey.signIn(victim, { email })).location).toBe("/");
    expect(await journey.providersOf(email)).toEqual([journey.provider]);
    expect(await journey.sessionsOf(attacker.email)).toHaveLength(1);
  });

  test("a victim's sign-in is refused while the attacker's direct link is unconfirmed, and keeps that link", async () => {
    const attacker = await journey.member();
    const { data } = await anon.auth.signInWithPassword(attacker);
    const query = new URLSearchParams({
      provider: journey.provider,
      redirect_to: `${base}/auth/callback`,
      scopes: journey.provider === "keycloak" ? "openid" : "email",
      skip_http_redirect: "true",
    });
    const answer = await fetch(`${supabase.url}/auth/v1/user/identities/authorize?${query}`, {
      headers: { apikey: supabase.publishableKey, authorization: `Bearer ${data.session?.access_token}` },
    });
    const { url } = (await answer.json()) as { url: string };
    const email = journey.newEmail();
    await journey.comeBack(url, { email });
    expect(await journey.providersOf(attacker.email)).toEqual(["email", journey.provider].sort());
    expect((await identitiesOf(attacker.browser)).identities).toHaveLength(2);

    const victim = openBrowser(base);
    const linkedIn = async (age: string) => {
      await runQuery("update auth.identities set created_at = now() - $2::interval where lower(email) = lower($1)", [
        email,
        age,
      ]);
      expect((await journey.signIn(victim, { email })).location).toMatch(/^\/login\?oauth=unconfirmed_link/);
      expect(await journey.providersOf(attacker.email)).toEqual(["email", journey.provider].sort());
    };
    for (const age of ["0 seconds", "1 day 1 second", "30 days"]) await linkedIn(age);
  });
});

describe("unlinking", () => {
  const linkedIdentity = async (browser: Browser) =>
    (await identitiesOf(browser)).identities.find(({ provider }) => provider === journey.provider)?.id ?? "";

  test("unlinking removes the provider account, notifies the owner, and keeps the sessions", async () => {
    const { email, id, browser } = await journey.member();
    const elsewhere = journey.newEmail();
    await journey.signIn(browser, { email: elsewhere }, link);
    const sessions = await journey.sessionsOf(email);
    const identity = await linkedIdentity(browser);
    expect((await browser.get(`/settings/security/linked-accounts/${identity}`)).text).toContain(elsewhere);
    expect(await call(`${api}/${identity}`, { method: "DELETE", browser })).toMatchObject({ status: 204 });
    expect(await call(`${api}/${identity}`, { method: "DELETE", browser })).toMatchObject({ status: 404 });
    expect(await journey.providersOf(email)).toEqual(["email"]);
    expect(await journey.sessionsOf(email)).toEqual(sessions);
    expect((await identitiesOf(browser)).canUnlink).toBe(false);
    expect((await journey.eventsOf(id)).at(-1)).toMatchObject({
      kind: "identity_unlinked",
      details: { email: elsewhere },
    });
    await expect
      .poll(async () => (await mailsTo(email)).map(({ subject }) => subject))
      .toContain("An account was unlinked from your Gatehouse account");
    expect((await browser.get(`/settings/security/linked-accounts/${identity}`)).status).toBe(404);
  });

  test("the security page's form unlinks a provider account, and a notice confirms it", async () => {
    const { email, browser } = await journey.member();
    await journey.signIn(browser, { email: journey.newEmail() }, link);
    const answer = await browser.post(`/settings/security/linked-accounts/${await linkedIdentity(browser)}`, {});
    expect(answer.location).toBe("/settings/security#linked-accounts");
    expect(await noticeOf(browser)).toContain("account is unlinked");
    expect(await journey.providersOf(email)).toEqual(["email"]);
  });

  test("unlinking cannot remove the last sign-in method", async () => {
    const email = journey.newEmail();
    const browser = openBrowser(base);
    await journey.signIn(browser, { email });
    const { identities, canUnlink } = await identitiesOf(browser);
    expect(canUnlink).toBe(false);
    const [identity] = identities;
    const path = `/settings/security/linked-accounts/${identity?.id}`;
    expect((await browser.get(path)).text).toContain("your only way to sign in");
    expect((await browser.get(path)).text).not.toContain(">Unlink</button>");
    expect(await call(`${api}/${identity?.id}`, { method: "DELETE", browser })).toMatchObject({
      status: 409,
      code: "CONFLICT",
    });
    expect((await browser.post(path, {})).status).toBe(409);
    expect(await journey.providersOf(email)).toEqual([journey.provider]);
  });

  test("of two identities that are unlinked concurrently, only one is removed", async () => {
    const email = journey.newEmail();
    const browser = openBrowser(base);
    await journey.signIn(browser, { email });
    await journey.signIn(browser, { email: journey.newEmail() }, link);
    const { identities } = await identitiesOf(browser);
    expect(identities).toHaveLength(2);
    const answers = await Promise.all(identities.map(({ id }) => call(`${api}/${id}`, { method: "DELETE", browser })));
    expect(answers.map(({ status }) => status).sort()).toEqual([204, 409]);
  });

  test("unlinking answers 404 for an identity that is unknown or belongs to another account, and 409 for the email identity", async () => {
    const [mine, theirs] = [await journey.member(), await journey.member()];
    await journey.signIn(theirs.browser, { email: journey.newEmail() }, link);
    const remove = (id: string) => call(`${api}/${id}`, { method: "DELETE", browser: mine.browser });
    expect(await remove(await linkedIdentity(theirs.browser))).toMatchObject({ status: 404 });
    expect(await remove(crypto.randomUUID())).toMatchObject({ status: 404 });
    expect(await remove("nonsense")).toMatchObject({ status: 404 });
    const [own] = (await identitiesOf(mine.browser)).identities;
    expect(await remove(own?.id ?? "")).toMatchObject({ status: 409 });
    expect(await journey.providersOf(theirs.email)).toEqual(["email", journey.provider].sort());
  });

  test("unlinking needs a sign-in from the last ten minutes, like linking", async () => {
    const { email, password, id } = await journey.member();
    const { data: signedIn } = await anon.auth.signInWithPassword({ email, password });
    await journey.query(
      `update auth.mfa_amr_claims c set updated_at = now() - interval '11 minutes'
       from auth.sessions s where s.id = c.session_id and s.user_id = $1`,
      id,
    );
    const { data } = await anon.auth.refreshSession({ refresh_token: signedIn.session?.refresh_token ?? "" });
    const headers = { cookie: await keepSession(storedSession.strip().parse(data.session)) };
    const path = `${api}/link/${journey.provider}`;
    const stale = { status: 403, code: "STEP_UP_REQUIRED" };
    expect(await call(path, { method: "POST", headers, json: {} })).toMatchObject(stale);
    expect(await call(`${api}/${crypto.randomUUID()}`, { method: "DELETE", headers })).toMatchObject(stale);
    const onPage = await call(`/auth/oauth/${journey.provider}`, {
      method: "POST",
      headers: { ...headers, referer: `${base}/settings/security` },
      form: link,
    });
    expect(onPage).toMatchObject({ status: 302, location: "/step-up?returnUrl=%2Fsettings%2Fsecurity" });
    expect(await call(api, { headers })).toMatchObject({ status: 200 });
  });
});
