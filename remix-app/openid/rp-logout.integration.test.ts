import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  createOpenidClient,
  leadsTo,
  refresh,
  signInAt,
  type TestClient,
  userinfo,
} from "../../scripts/test/openid.ts";
import { createPerson, deletePerson, enter, type Person } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openBrowser } from "../testing/browser.ts";

// Tests are named after https://openid.net/specs/openid-connect-rpinitiated-1_0.html.

const { base } = readStack();
const bye = "https://client.example/bye";
let person: Person;
let client: TestClient;

beforeAll(async () => {
  [person, client] = await Promise.all([createPerson(), createOpenidClient({ postLogoutRedirectUris: [bye] })]);
});
afterAll(() => deletePerson(person));

const logout = (given: Record<string, string>) => `/oauth/logout?${new URLSearchParams(given)}`;

/** Returns the action of the page's confirmation form, or null. */
function confirmation(text: string): string | null {
  return /<form[^>]*action="([^"]*\/oauth\/logout\/confirm[^"]*)"/.exec(text)?.[1]?.replaceAll("&amp;", "&") ?? null;
}

describe("RP-initiated logout", () => {
  test("RP-Logout-id_token_hint: with an ID token of the browser's current login, signs out without asking and redirects back", async () => {
    const browser = await enter(person);
    const { tokens } = await signInAt(browser, client, { scope: "openid offline_access" });
    const answer = await browser.get(
      logout({ id_token_hint: tokens.id_token ?? "", post_logout_redirect_uri: bye, state: "s 1" }),
    );
    expect(answer).toMatchObject({ status: 303, location: `${bye}?state=s+1` });
    expect((await browser.get("/settings/profile")).location).toMatch(/^\/login/);
    expect(await userinfo(client, tokens.access_token)).toBe(401);
    expect((await refresh(client, tokens.refresh_token)).status).toBe(400);
  });

  test("RP-Logout-confirmation: without a hint, asks for confirmation and signs out once the person agrees", async () => {
    const browser = await enter(person);
    const page = await browser.get(logout({ client_id: client.id, post_logout_redirect_uri: bye }));
    expect(page.words).toContain("Charts is asking to sign you out of");
    expect((await browser.get("/settings/profile")).status).toBe(200);
    const done = await browser.post(confirmation(page.text) ?? "", {});
    expect(leadsTo(done)?.href).toBe(bye);
    expect((await browser.get("/settings/profile")).location).toMatch(/^\/login/);
  });

  test("RP-Logout-other-session: a hint from the person's login in another browser ends that login only after confirmation", async () => {
    const [first, second] = [await enter(person), await enter(person)];
    const { tokens } = await signInAt(first, client);
    const page = await second.get(logout({ id_token_hint: tokens.id_token ?? "" }));
    expect(page.words).toContain(person.email);
    const done = await second.post(confirmation(page.text) ?? "", {});
    expect(done.words).toContain("You’re signed out");
    expect(await userinfo(client, tokens.access_token)).toBe(401);
    expect((await first.get("/settings/profile")).status).toBe(200);
  });

  test("RP-Logout-other-person: a hint from another person’s login doesn’t end that login", async () => {
    const other = await createPerson();
    const { tokens } = await signInAt(await enter(other), client);
    const browser = await enter(person);
    const page = await browser.get(logout({ id_token_hint: tokens.id_token ?? "" }));
    await browser.post(confirmation(page.text) ?? "", {});
    expect(await userinfo(client, tokens.access_token)).toEqual({ sub: other.id });
    await deletePerson(other);
  });

  test.each<Record<string, string>>([
    { post_logout_redirect_uri: "https://evil.example/bye" },
    { post_logout_redirect_uri: `${bye}?x=1` },
    { post_logout_redirect_uri: `${bye}/` },
    { client_id: "unknown", post_logout_redirect_uri: bye },
    { id_token_hint: "a.b.c" },
  ])("RP-Logout-bad-request: answers 400 to %j, without a redirect or a sign-out", async (given) => {
    const browser = await enter(person);
    const answer = await browser.get(logout({ client_id: client.id, ...given }));
    expect([answer.status, leadsTo(answer), confirmation(answer.text)]).toEqual([400, null, null]);
    expect((await browser.get("/settings/profile")).status).toBe(200);
  });

  test("RP-Logout-client_id-mismatch: refuses another client's hint, and a redirect URI without a client_id", async () => {
    const browser = await enter(person);
    const { tokens } = await signInAt(browser, client);
    const other = await createOpenidClient({ postLogoutRedirectUris: [bye] });
    const mixed = { id_token_hint: tokens.id_token ?? "", client_id: other.id };
    expect((await browser.get(logout(mixed))).status).toBe(400);
    expect((await browser.get(logout({ post_logout_redirect_uri: bye }))).status).toBe(400);
  });

  test("RP-Logout-POST: accepts another site's form post by redirecting to the confirmation page", async () => {
    const browser = await enter(person);
    const response = await fetch(`${base}/oauth/logout`, {
      method: "POST",
      redirect: "manual",
      headers: { "sec-fetch-site": "cross-site", origin: "https://client.example", cookie: browser.cookie() },
      body: new URLSearchParams({ client_id: client.id, post_logout_redirect_uri: bye }),
    });
    expect(response.status).toBe(303);
    expect(confirmation((await browser.get(response.headers.get("location") ?? "")).text)).not.toBeNull();
  });

  test("RP-Logout-forged: refuses a confirmation posted by another site", async () => {
    const browser = await enter(person);
    const page = await browser.get(logout({ client_id: client.id }));
    const response = await fetch(new URL(confirmation(page.text) ?? "", base), {
      method: "POST",
      redirect: "manual",
      headers: { "sec-fetch-site": "cross-site", origin: "https://evil.example", cookie: browser.cookie() },
    });
    expect(response.status).toBe(403);
  });

  test("RP-Logout-signed-out: redirects back to the client immediately if no account is signed in", async () => {
    const answer = await openBrowser(base).get(logout({ client_id: client.id, post_logout_redirect_uri: bye }));
    expect(answer).toMatchObject({ status: 303, location: bye });
  });
});
