import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { decodeJwt } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { consent, createOpenidClient, leadsTo } from "../../scripts/test/openid.ts";
import { createPerson, deletePerson, enter, type Person, type SignedInBrowser } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { newAddress } from "../testing/visitor.ts";

// The requests that Grafana sends with the settings of docs/openid.md, according to its source:
// https://github.com/grafana/grafana/blob/e7ed17198fd2284714b6971eb7eac7b8aaa96715/pkg/services/authn/clients/oauth.go
// https://github.com/grafana/grafana/blob/09d6a32d0d8379517991245e50b9cfac5e6ecfa0/pkg/login/social/connectors/generic_oauth.go
// Grafana uses https://pkg.go.dev/golang.org/x/oauth2, which tries client_secret_basic first.

const { base } = readStack();
const grafana = "https://charts.example.com";

/** Returns the guide's Grafana settings, parsed like an ini file, with this stack's URL and the given client. */
function settingsOf({ id, secret }: { id: string; secret: string | null }) {
  const guide = readFileSync("docs/openid.md", "utf8");
  const block = /^```text\n\[auth\.generic_oauth\]\n(.*?)^```$/ms.exec(guide)?.[1] ?? "";
  const lines = [...block.matchAll(/^(\w+) = (.*)$/gm)].map(([, name = "", value = ""]) => [name, value] as const);
  const known = { ...Object.fromEntries(lines), client_id: id, client_secret: secret ?? "" };
  const own = JSON.stringify(known)
    .replaceAll("https://app.example.com", base)
    .replaceAll("client_id=charts", `client_id=${id}`);
  return z.record(z.string(), z.string()).parse(JSON.parse(own));
}

type Settings = ReturnType<typeof settingsOf>;
const setting = (settings: Settings, name: string) => {
  const value = settings[name];
  if (value === undefined) throw new Error(`the guide's block has no ${name}`);
  return value;
};

let person: Person;
let browser: SignedInBrowser;
let settings: Settings;

beforeAll(async () => {
  const [owner, client] = await Promise.all([
    createPerson(),
    createOpenidClient({
      redirectUris: [`${grafana}/login/generic_oauth`],
      postLogoutRedirectUris: [`${grafana}/login`],
    }),
  ]);
  [person, settings] = [owner, settingsOf(client)];
  browser = await enter(person);
});
afterAll(() => deletePerson(person));

const redirectUri = `${grafana}/login/generic_oauth`;

/** Requests tokens as golang.org/x/oauth2 does, with form-encoded credentials in Basic (internal/token.go). */
async function requestTokens(parameters: Record<string, string>) {
  const encoded = [setting(settings, "client_id"), setting(settings, "client_secret")].map(encodeURIComponent);
  const response = await fetch(setting(settings, "token_url"), {
    method: "POST",
    headers: {
      authorization: `Basic ${Buffer.from(encoded.join(":")).toString("base64")}`,
      "x-forwarded-for": newAddress(),
    },
    body: new URLSearchParams(parameters),
  });
  return { status: response.status, body: await response.json() };
}

/**
 * Signs in as RedirectURL in oauth.go does: without a nonce and, with `use_pkce`, with a verifier of 128 characters.
 */
async function signIn() {
  const verifier = randomBytes(96).toString("base64url");
  const state = randomBytes(32).toString("base64");
  const url = new URL(setting(settings, "auth_url"));
  url.search = String(
    new URLSearchParams({
      client_id: setting(settings, "client_id"),
      ...(settings.use_pkce === "true" && {
        code_challenge: createHash("sha256").update(verifier).digest("base64url"),
        code_challenge_method: "S256",
      }),
      redirect_uri: redirectUri,
      response_type: "code",
      // Grafana's util.SplitString splits by spaces or commas.
      scope: setting(settings, "scopes")
        .split(/[\s,]+/)
        .join(" "),
      state,
    }),
  );
  const address = await consent(browser, { path: `${url.pathname}${url.search}` });
  expect(address.href.split("?")[0]).toBe(redirectUri);
  expect(address.searchParams.get("state")).toBe(state);
  return requestTokens({
    grant_type: "authorization_code",
    code: address.searchParams.get("code") ?? "",
    redirect_uri: redirectUri,
    code_verifier: verifier,
  });
}

/**
 * Returns the claims that Grafana uses. Values in the ID token take precedence over the answer of `api_url`
 * (generic_oauth.go, collectUserInfoData).
 */
async function userInfoOf({ access_token, id_token }: Record<string, string>) {
  const response = await fetch(setting(settings, "api_url"), { headers: { authorization: `Bearer ${access_token}` } });
  expect(response.status).toBeLessThan(300);
  const sources: Record<string, unknown>[] = [decodeJwt(id_token ?? ""), await response.json()];
  const first = (name: string) => sources.map((source) => source[name]).find((value) => value);
  return {
    id: first("sub"),
    login: first(setting(settings, "login_attribute_path")),
    name: first(setting(settings, "name_attribute_path")),
    email: first(setting(settings, "email_attribute_path")),
  };
}

describe("Grafana with the settings of our guide", () => {
  test("Grafana signs a person in and gets their id, login, name and email", async () => {
    const { status, body } = await signIn();
    expect(status).toBe(200);
    expect(await userInfoOf(body)).toEqual({
      id: person.id,
      login: person.email,
      name: expect.any(String),
      email: person.email,
    });
  });

  test("Grafana refreshes its token without a new sign-in", async () => {
    const { body } = await signIn();
    expect(setting(settings, "use_refresh_token")).toBe("true");
    const refreshed = await requestTokens({ grant_type: "refresh_token", refresh_token: body.refresh_token });
    expect(refreshed.status).toBe(200);
    expect(await userInfoOf(refreshed.body)).toMatchObject({ email: person.email });
  });

  test("Grafana's sign-out signs the person out and returns to its sign-in page", async () => {
    const url = new URL(setting(settings, "signout_redirect_url"));
    const page = await browser.get(`${url.pathname}${url.search}`);
    const confirm = /action="([^"]*\/oauth\/logout\/confirm[^"]*)"/.exec(page.text)?.[1]?.replaceAll("&amp;", "&");
    expect(leadsTo(await browser.post(confirm ?? "", {}))?.href).toBe(`${grafana}/login`);
    expect((await browser.get("/settings/profile")).location).toMatch(/^\/login/);
  });
});
