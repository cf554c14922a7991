import { createRemoteJWKSet, jwtVerify } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  demoTenant,
  type SimulatedProviderName,
  simulatedProviderBase,
  simulatedProviderIssuer,
  simulatedProviderNames,
  simulatedProviders,
} from "./simulated-providers.ts";
import { client, openBrowser, type RunningServer, startOidcServer } from "./test-server.ts";

let server: RunningServer;
beforeAll(async () => {
  server = await startOidcServer();
});
afterAll(() => server.stop());

/** Scopes that Supabase Auth requests from each provider. */
const scopes = { google: "email profile", apple: "email name", azure: "openid email", github: "user:email" };
const baseOf = (name: SimulatedProviderName) => simulatedProviderBase(server.origin, name);
const issuerOf = (name: SimulatedProviderName) => simulatedProviderIssuer(server.origin, name);
const basic = `Basic ${btoa(`${encodeURIComponent(client.id)}:${encodeURIComponent(client.secret)}`)}`;

async function signInPage(name: SimulatedProviderName, query: Record<string, string> = {}) {
  const open = openBrowser(server.origin);
  const parameters = {
    client_id: client.id,
    redirect_uri: client.redirectUri,
    response_type: "code",
    scope: scopes[name],
    state: "a-state",
    ...(name === "apple" ? { response_mode: "form_post" } : {}),
    ...query,
  };
  const page = await (
    await open(`${baseOf(name)}${simulatedProviders[name].paths.authorization}?${new URLSearchParams(parameters)}`)
  ).text();
  const action = /<form method="post" action="([^"]+)"/.exec(page)?.[1];
  if (!action) throw new Error(`There is no form on the page: ${page}`);
  return { page, submit: (form: Record<string, string>) => open(action, form) };
}

/** Returns the fields of a page's self-posting form. */
const postedFields = (page: string) =>
  Object.fromEntries(
    [...page.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)].map(([, name, value]) => [
      name,
      value?.replaceAll("&quot;", '"').replaceAll("&amp;", "&"),
    ]),
  );

async function signIn(name: SimulatedProviderName, form: Record<string, string>): Promise<Record<string, string>> {
  const { submit } = await signInPage(name);
  const response = await submit(form);
  const location = response.headers.get("location");
  return location ? Object.fromEntries(new URL(location).searchParams) : postedFields(await response.text());
}

async function exchange(name: SimulatedProviderName, code = "") {
  const form = { grant_type: "authorization_code", code, redirect_uri: client.redirectUri };
  const inBody = simulatedProviders[name].clientAuthentication === "client_secret_post";
  const response = await fetch(`${baseOf(name)}${simulatedProviders[name].paths.token}`, {
    method: "POST",
    headers: inBody ? {} : { Authorization: basic },
    body: new URLSearchParams(inBody ? { ...form, client_id: client.id, client_secret: client.secret } : form),
  });
  return (await response.json()) as Record<string, string>;
}

async function claimsOf(name: SimulatedProviderName, form: Record<string, string>) {
  const { id_token: idToken = "" } = await exchange(name, (await signIn(name, form)).code);
  const discovery = await fetch(`${issuerOf(name)}/.well-known/openid-configuration`);
  const { issuer, jwks_uri: keys } = (await discovery.json()) as Record<string, string>;
  expect(issuer).toBe(issuerOf(name));
  const { payload } = await jwtVerify(idToken, createRemoteJWKSet(new URL(keys ?? "")), {
    issuer: issuerOf(name),
    audience: client.id,
  });
  return payload;
}

async function github(path: string, token = "") {
  const response = await fetch(`${issuerOf("github")}/api/v3${path}`, {
    headers: { Authorization: `Bearer ${token}` },
  });
  return { status: response.status, body: await response.json() };
}

describe.each(simulatedProviderNames)("Simulated provider %s", (name) => {
  test("the sign-in page says that it is a demo, and which company it simulates", async () => {
    const { page } = await signInPage(name);
    expect(page).toContain(`Sign in to the demo of ${simulatedProviders[name].company}`);
    expect(page).toContain(`in the place of ${simulatedProviders[name].company}, which is not asked anything`);
  });

  test("a simulated provider returns a single-use code and the state to the browser", async () => {
    const { code, state } = await signIn(name, { email: "any@example.test", verified: "on" });
    expect(state).toBe("a-state");
    expect(await exchange(name, code)).toMatchObject({ access_token: expect.any(String) });
    expect(await exchange(name, code)).toMatchObject({ error: "invalid_grant" });
  });

  test("returns access_denied if the user cancels the simulated sign-in", async () => {
    expect(await signIn(name, { cancel: "yes" })).toMatchObject({ error: "access_denied", state: "a-state" });
  });

  test("a simulated provider accepts prompt=select_account and shows its usual sign-in page", async () => {
    const { page } = await signInPage(name, { prompt: "select_account" });
    expect(page).toContain(`Sign in to the demo of ${simulatedProviders[name].company}`);
  });

  test("a simulated provider refuses a code that another provider issued", async () => {
    const other = simulatedProviderNames.find((candidate) => candidate !== name) ?? name;
    const { code } = await signIn(other, { person: "verified" });
    expect(await exchange(name, code)).toMatchObject({ error: "invalid_grant" });
  });
});

describe.each(["google", "apple", "azure"] as const)("ID tokens of %s", (name) => {
  test.each([
    [{ person: "verified" }, { email: "ada@people.example.test", email_verified: true }],
    [{ person: "unverified" }, { email: "una@people.example.test", email_verified: false }],
    [{ email: "typed@example.test" }, { email: "typed@example.test", email_verified: false }],
  ])("a sign-in with %o returns an ID token with the claims %o", async (form, expected) => {
    expect(await claimsOf(name, form as Record<string, string>)).toMatchObject(expected);
  });
});

test("the simulated Microsoft names its only tenant in its URLs and its issuer, and answers 404 for any other tenant", async () => {
  expect(issuerOf("azure")).toBe(`${server.origin}/azure/${demoTenant}/v2.0`);
  expect((await claimsOf("azure", { person: "verified" })).iss).toBe(issuerOf("azure"));
  const elsewhere = await fetch(`${server.origin}/azure/common/oauth2/v2.0/authorize?client_id=${client.id}`);
  expect(elsewhere.status).toBe(404);
});

test("a person has a different subject at each provider", async () => {
  const subjects = await Promise.all(
    (["google", "apple", "azure"] as const).map(async (name) => (await claimsOf(name, { person: "verified" })).sub),
  );
  expect(new Set(subjects).size).toBe(3);
});

test("the simulated Apple posts the user's name only at the first sign-in", async () => {
  const first = await signIn("apple", { email: "first@example.test" });
  expect(JSON.parse(first.user ?? "")).toEqual({
    name: { firstName: "first", lastName: "" },
    email: "first@example.test",
  });
  expect(await signIn("apple", { email: "first@example.test" })).not.toHaveProperty("user");
});

describe("GitHub's API", () => {
  test("GitHub's token endpoint returns no ID token", async () => {
    const { code } = await signIn("github", { person: "verified" });
    expect(await exchange("github", code)).not.toHaveProperty("id_token");
  });

  const tokenOf = async (person: string) =>
    (await exchange("github", (await signIn("github", { person })).code)).access_token;

  test("GitHub's API identifies a person by a stable number, without an email in the profile", async () => {
    const one = await github("/user", await tokenOf("verified"));
    const again = await github("/user", await tokenOf("verified"));
    expect(one.body).toMatchObject({ id: expect.any(Number), login: "ada", name: "Ada Verified", email: null });
    expect(Number.isSafeInteger(one.body.id)).toBe(true);
    expect(again.body).toEqual(one.body);
    expect((await github("/user", await tokenOf("many"))).body.id).not.toBe(one.body.id);
  });

  test("GitHub's API lists verified and unverified emails, and marks the primary email", async () => {
    expect((await github("/user/emails", await tokenOf("many"))).body).toMatchObject([
      { email: "max@people.example.test", verified: true, primary: true },
      { email: "max@work.example.test", verified: true, primary: false },
      { email: "max@old.example.test", verified: false, primary: false },
    ]);
    expect((await github("/user/emails", await tokenOf("unverified"))).body).toMatchObject([
      { email: "una@people.example.test", verified: false, primary: true },
    ]);
  });

  test("GitHub's API returns 401 without a token that it issued, and 404 for other paths", async () => {
    expect((await github("/user")).status).toBe(401);
    expect((await github("/user/emails", "made-up")).status).toBe(401);
    expect((await github("/nothing", await tokenOf("verified"))).status).toBe(404);
  });
});
