import { describe, expect, test } from "vitest";
import { readStack } from "../../scripts/test/stack.ts";
import { atOnce, callAtOnce } from "../testing/at-once.ts";
import { enrollApps } from "../testing/authenticator-app.ts";
import { openBrowser } from "../testing/browser.ts";
import { oauthJourney } from "../testing/oauth-journey.ts";

const { supabase, ...stack } = readStack();
const journey = oauthJourney({ ...stack, supabase });
const { base } = journey;

const cookieNamed = (header: string, name: string) =>
  header.split("; ").find((cookie) => cookie.startsWith(`${name}=`));
/** Sends a request with a browser's headers and only the given cookies. */
const withCookies = (path: string, cookie: string, init: RequestInit = {}) =>
  fetch(new URL(path, base), {
    redirect: "manual",
    ...init,
    headers: { "user-agent": "Test browser", accept: "text/html", "sec-fetch-site": "same-origin", cookie },
  });

describe("a sign-in with a provider", () => {
  test("a sign-in with a provider creates an account, and finds it again the next time", async () => {
    const email = journey.newEmail();
    const first = openBrowser(base);
    expect((await first.get("/workspaces")).location).toContain("/login");
    const made = await journey.signIn(first, { email }, { returnUrl: "/workspaces" });
    expect(made).toMatchObject({ status: 302, location: "/workspaces" });
    expect((await first.get("/workspaces")).status).toBe(200);
    expect(cookieNamed(first.cookie(), "gh_oauth")).toBeUndefined();
    expect(cookieNamed(first.cookie(), "gh_last_method")).toBe(`gh_last_method=oauth%3A${journey.provider}`);

    const second = openBrowser(base);
    expect(await journey.signIn(second, { email })).toMatchObject({ location: "/" });
    expect(await journey.sessionsOf(email)).toHaveLength(2);
    const id = (await journey.accountOf(email)) ?? "";
    expect(await journey.eventsOf(id)).toMatchObject([
      { kind: "sign_in", method: `oauth:${journey.provider}` },
      { kind: "sign_in", method: `oauth:${journey.provider}` },
    ]);
  });

  test("signing in with a provider that reports an account's verified email links the provider to that account and records the link", async () => {
    const { email, id } = await journey.member();
    expect(await journey.signIn(openBrowser(base), { email })).toMatchObject({ location: "/" });
    expect(await journey.providersOf(email)).toEqual(["email", journey.provider].sort());
    expect((await journey.eventsOf(id)).map(({ kind }) => kind)).toEqual(["sign_in", "identity_linked", "sign_in"]);
  });

  test("a provider sign-in never redirects to another site", async () => {
    const answer = await journey.signIn(
      openBrowser(base),
      { email: journey.newEmail() },
      { returnUrl: "//evil.example" },
    );
    expect(answer.location).toBe("/");
  });

  test("a provider sign-in can be started only by our own forms, and only with an enabled provider", async () => {
    const path = `/auth/oauth/${journey.provider}`;
    const form = { method: "POST", body: new URLSearchParams() };
    for (const site of ["cross-site", "same-site"]) {
      const headers = { "sec-fetch-site": site, "user-agent": "Test browser" };
      expect((await fetch(new URL(path, base), { ...form, headers, redirect: "manual" })).status).toBe(403);
    }
    expect((await openBrowser(base).post("/auth/oauth/facebook", {})).status).toBe(404);
    expect((await openBrowser(base).get(path)).location).toBe("/login");
  });

  test("refuses a provider sign-in without a user agent", async () => {
    expect((await openBrowser(base, { userAgent: "" }).post(`/auth/oauth/${journey.provider}`, {})).status).toBe(403);
  });
});

describe("the provider's callback before the code is exchanged", () => {
  async function onTheWayBack() {
    const email = journey.newEmail();
    const browser = openBrowser(base);
    const back = await journey.comeBack(await journey.setOut(browser), { email });
    return { email, browser, back, state: new URL(back).searchParams.get("state") ?? "" };
  }
  type Way = Awaited<ReturnType<typeof onTheWayBack>>;

  async function expectRefused({ email, back }: Way, address: string, cookie: string) {
    const response = await withCookies(address, cookie);
    expect(response.status).toBe(403);
    expect(await response.text()).toContain("This sign-in can’t be finished here");
    expect(await journey.codeIsGood(back)).toBe(true);
    expect(await journey.sessionsOf(email)).toEqual([]);
    expect(response.headers.getSetCookie().some((header) => header.startsWith("sb-"))).toBe(false);
  }

  test("refuses a return from the provider without a state", async () => {
    const way = await onTheWayBack();
    const address = new URL(way.back);
    address.searchParams.delete("state");
    await expectRefused(way, address.href, way.browser.cookie());
  });

  test("refuses a return from the provider if the state belongs to another sign-in", async () => {
    const [way, other] = [await onTheWayBack(), await onTheWayBack()];
    await expectRefused(way, way.back.replace(way.state, other.state), way.browser.cookie());
  });

  test("refuses a return from the provider in a browser that did not start the sign-in", async () => {
    const [way, other] = [await onTheWayBack(), await onTheWayBack()];
    await expectRefused(way, way.back, "");
    await expectRefused(way, way.back, other.browser.cookie());
  });

  test("refuses a return from the provider with a forged cookie", async () => {
    const way = await onTheWayBack();
    const cookie = cookieNamed(way.browser.cookie(), "gh_oauth") ?? "";
    const [start, header, payload, signature = ""] = cookie.split(".");
    const flipped = `${signature.startsWith("A") ? "B" : "A"}${signature.slice(1)}`;
    await expectRefused(way, way.back, [start, header, payload, flipped].join("."));
    const forged = Buffer.from(JSON.stringify({ purpose: "sign_in", provider: journey.provider, returnTo: "/" }));
    await expectRefused(way, way.back, [start, header, forged.toString("base64url"), signature].join("."));
    await expectRefused(way, way.back, `gh_oauth=${way.state}`);
    // The right cookie still works.
    expect((await way.browser.get(way.back)).location).toBe("/");
  });

  test("refuses a return from the provider ten minutes after the sign-in began", async () => {
    const way = await onTheWayBack();
    await journey.query(
      `update private.oauth_attempts set created_at = now() - interval '10 minutes', expires_at = now()
       where state_hash = sha256($1)`,
      Buffer.from(way.state),
    );
    expect((await way.browser.get(way.back)).location).toMatch(/^\/login\?oauth=expired/);
    expect(await journey.codeIsGood(way.back)).toBe(true);
    expect(await journey.sessionsOf(way.email)).toEqual([]);
  });

  test("refuses a provider callback that was already used", async () => {
    const way = await onTheWayBack();
    const cookie = way.browser.cookie();
    expect((await way.browser.get(way.back)).location).toBe("/");
    const again = await withCookies(way.back, cookie);
    expect(again.headers.get("location")).toMatch(/^\/login\?oauth=expired/);
    expect(await journey.sessionsOf(way.email)).toHaveLength(1);
  });

  test("refuses all but one of many concurrent returns from the provider", async () => {
    const way = await onTheWayBack();
    const cookie = way.browser.cookie();
    const answers = await callAtOnce(() => withCookies(way.back, cookie));
    const locations = answers.map((answer) => answer.headers.get("location"));
    expect(locations.filter((location) => location === "/")).toHaveLength(1);
    expect(locations.filter((location) => location?.startsWith("/login?oauth=expired"))).toHaveLength(atOnce - 1);
    expect(await journey.sessionsOf(way.email)).toHaveLength(1);
  });

  test("refuses a HEAD request to the provider callback, and changes nothing", async () => {
    const way = await onTheWayBack();
    const response = await withCookies(way.back, way.browser.cookie(), { method: "HEAD" });
    expect(response.status).toBe(405);
    expect(await journey.codeIsGood(way.back)).toBe(true);
    expect((await way.browser.get(way.back)).location).toBe("/");
  });

  test("refuses an authorization code that belongs to another sign-in", async () => {
    const [way, other] = [await onTheWayBack(), await onTheWayBack()];
    const code = new URL(other.back).searchParams.get("code") ?? "";
    const mixed = new URL(way.back);
    mixed.searchParams.set("code", code);
    expect((await way.browser.get(mixed.href)).location).toMatch(/^\/login\?oauth=expired/);
    expect(await journey.codeIsGood(other.back)).toBe(true);
    expect(await journey.sessionsOf(other.email)).toEqual([]);
  });
});

describe("a provider sign-in that ends with an error", () => {
  const words = async (location: string | null) => (await openBrowser(base).get(location ?? "")).text;

  test("says that the user canceled the sign-in, without calling it a failure", async () => {
    const browser = openBrowser(base);
    const answer = await journey.signIn(
      browser,
      { email: journey.newEmail(), cancel: true },
      { returnUrl: "/workspaces" },
    );
    expect(answer.location).toBe(`/login?oauth=cancelled&provider=${journey.provider}&returnUrl=%2Fworkspaces`);
    expect(await words(answer.location)).toContain("You canceled signing in with");
    expect(cookieNamed(browser.cookie(), "gh_oauth")).toBeUndefined();
  });

  test("does not sign in an account with an unverified address", async () => {
    const email = journey.newEmail();
    const answer = await journey.signIn(openBrowser(base), { email, verified: false });
    expect(answer.location).toMatch(/^\/login\?oauth=unverified/);
    expect(await words(answer.location)).toContain("hasn’t verified your email address");
    expect(await journey.sessionsOf(email)).toEqual([]);
  });

  test("refuses a provider sign-in with an unverified email, even if an account has that email", async () => {
    const { email } = await journey.member();
    const answer = await journey.signIn(openBrowser(base), { email, verified: false });
    expect(answer.location).toMatch(/^\/login\?oauth=unverified/);
    expect(await journey.sessionsOf(email)).toHaveLength(1);
  });

  test("says that the account is closed if the account is banned", async () => {
    const email = journey.newEmail();
    await journey.signIn(openBrowser(base), { email });
    const id = (await journey.accountOf(email)) ?? "";
    await journey.service.auth.admin.updateUserById(id, { ban_duration: "1h" });
    const answer = await journey.signIn(openBrowser(base), { email });
    expect(answer.location).toMatch(/^\/login\?oauth=closed/);
    expect(await words(answer.location)).toContain("You can’t sign in to this account");
    expect(await journey.sessionsOf(email)).toHaveLength(1);
  });

  test("refuses an account that was banned during the visit to the provider, even though the backend doesn't recheck bans", async () => {
    const email = journey.newEmail();
    await journey.signIn(openBrowser(base), { email });
    const browser = openBrowser(base);
    const back = await journey.comeBack(await journey.setOut(browser), { email });
    await journey.query("update auth.users set banned_until = now() + interval '1 hour' where email = $1", email);
    expect((await browser.get(back)).location).toMatch(/^\/login\?oauth=closed/);
    expect(await journey.sessionsOf(email)).toHaveLength(1);
    expect(await journey.codeIsGood(back)).toBe(false);
  });
});

describe("a signed-in user", () => {
  test("a signed-in user can confirm a provider sign-in to another account, and stays signed in to the first account", async () => {
    const { browser, email: own } = await journey.member();
    const email = journey.newEmail();
    const back = await journey.comeBack(await journey.setOut(browser, { intent: "add" }), { email });
    expect((await browser.get(back)).words).toContain(`Continue as ${email}?`);
    const { searchParams } = new URL(back);
    const form = { code: searchParams.get("code") ?? "", state: searchParams.get("state") ?? "" };
    expect((await browser.post("/auth/callback", form)).location).toBe("/");
    const { accounts } = JSON.parse((await browser.get("/api/v1/auth/accounts")).text);
    expect(accounts).toMatchObject([
      { email, active: true },
      { email: own, active: false, requiresReauth: false },
    ]);
  });

  test("a provider sign-in to another account asks a signed-in user first, and keeps the user's earlier sessions", async () => {
    const member = await journey.member();
    const visitor = openBrowser(base);
    const email = journey.newEmail();
    const back = await journey.comeBack(await journey.setOut(visitor), { email });
    // Meanwhile, the user has signed in in another tab.
    const { email: own, password } = member;
    expect((await visitor.post("/login", { email: own, password })).location).toBe("/");

    const asked = await visitor.get(back);
    expect(asked.status).toBe(200);
    expect(asked.words).toContain(`Continue as ${email}?`);
    // A long email may break before its @.
    expect(asked.text).toMatch(/<h1[^>]*>.*<wbr\/>@.*<\/h1>/);
    expect(asked.words).toContain(`You’re signed in as ${own}`);
    expect(await journey.sessionsOf(email)).toEqual([]);
    expect((await visitor.get("/")).status).toBe(200);

    const { searchParams } = new URL(back);
    const form = { code: searchParams.get("code") ?? "", state: searchParams.get("state") ?? "" };
    const before = (await journey.sessionsOf(own)).length;
    const foreign = { "sec-fetch-site": "cross-site", "user-agent": "Test browser", cookie: visitor.cookie() };
    const forced = await fetch(new URL("/auth/callback", base), {
      method: "POST",
      body: new URLSearchParams(form),
      headers: foreign,
      redirect: "manual",
    });
    expect(forced.status).toBe(403);
    expect(await journey.sessionsOf(email)).toEqual([]);

    expect((await visitor.post("/auth/callback", form)).location).toBe("/");
    expect(await journey.sessionsOf(email)).toHaveLength(1);
    // The other account is added to this browser's accounts, and the user's own sessions remain.
    expect(await journey.sessionsOf(own)).toHaveLength(before);
  });

  test("a signed-in user isn't asked to switch if the provider account is their own", async () => {
    const { email, password } = await journey.member();
    const visitor = openBrowser(base);
    const back = await journey.comeBack(await journey.setOut(visitor), { email });
    expect((await visitor.post("/login", { email, password })).location).toBe("/");
    expect((await visitor.get(back)).location).toBe("/");
  });

  test("a signed-in user who proves their identity with a provider gets a new session", async () => {
    const { email, browser } = await journey.member();
    const [before] = await journey.sessionsOf(email);
    expect(await journey.signIn(browser, { email }, { returnUrl: "/settings/security" })).toMatchObject({
      status: 302,
      location: "/settings/security",
    });
    expect((await browser.get("/settings/security")).status).toBe(200);
    const after = await journey.sessionsOf(email);
    expect(after).toHaveLength(1);
    expect(after).not.toContain(before);
  });

  test("a user can't prove their identity with another account, and no account is created", async () => {
    const { email, browser } = await journey.member();
    const [before] = await journey.sessionsOf(email);
    const cookie = browser.cookie();
    const stranger = journey.newEmail();
    const answer = await journey.signIn(browser, { email: stranger });
    expect(answer.status).toBe(403);
    expect(answer.text).toContain("is linked to another account here");
    expect(await journey.accountOf(stranger)).toBeUndefined();
    expect(await journey.sessionsOf(email)).toEqual([before]);
    expect(cookieNamed(browser.cookie(), "sb-127-auth-token")).toBe(cookieNamed(cookie, "sb-127-auth-token"));
  });

  test("a user who still needs the second factor may switch accounts, but can't use another account as proof of identity", async () => {
    const { email: own, password } = await journey.member();
    await enrollApps(supabase, { email: own, password, names: ["Phone"] });
    const browser = openBrowser(base);
    expect((await browser.post("/login", { email: own, password })).location).toMatch(/^\/mfa/);
    const email = journey.newEmail();
    const asked = await journey.signIn(browser, { email });
    expect([asked.status, asked.words]).toEqual([200, expect.stringContaining(`Continue as ${email}?`)]);
    expect((await journey.signIn(browser, { email }, { intent: "prove" })).status).toBe(403);
  });

  test("a proof of identity with another person's account is refused and leaves that account unchanged", async () => {
    const [mine, theirs] = [await journey.member(), await journey.member()];
    expect((await journey.signIn(mine.browser, { email: theirs.email })).status).toBe(403);
    expect(await journey.providersOf(theirs.email)).toEqual(["email"]);
    expect(await journey.sessionsOf(theirs.email)).toHaveLength(1);
  });

  test("a proof of identity fails if the user has signed out in the meantime", async () => {
    const { email, browser } = await journey.member();
    const back = await journey.comeBack(await journey.setOut(browser), { email });
    await browser.post("/logout", {});
    expect((await browser.get(back)).location).toMatch(/^\/login\?oauth=expired/);
    expect(await journey.sessionsOf(email)).toEqual([]);
  });
});
