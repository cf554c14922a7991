import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { simulatedProviderBase, simulatedProviderPath } from "../../../oidc/simulated-providers.ts";
import { client, openBrowser, type RunningServer, startOidcServer } from "../../../oidc/test-server.ts";
import { readProviders } from "../../config/providers.ts";
import { openDiscovery } from "./discovery.ts";
import { authorizationServer, ExchangeError, redeemCode } from "./exchange.ts";
import { requireProvider } from "./require-provider.ts";

let server: RunningServer;
beforeAll(async () => {
  server = await startOidcServer();
});
afterAll(() => server.stop());

const clock = () => new Date();
const parts = () => ({ clock, discover: openDiscovery(clock) });

/** Returns a provider configured by environment variables. */
function configured(name: string, url: string, changes: Record<string, string> = {}) {
  const prefix = `GOTRUE_EXTERNAL_${name.toUpperCase()}`;
  const providers = readProviders({
    [`${prefix}_ENABLED`]: "true",
    [`${prefix}_CLIENT_ID`]: client.id,
    [`${prefix}_SECRET`]: client.secret,
    [`${prefix}_REDIRECT_URI`]: client.redirectUri,
    [`${prefix}_URL`]: url,
    ...changes,
  });
  return requireProvider({ config: { providers } }, name);
}

/**
 * Signs a person in at a simulated provider. @returns the response with which the provider redirects the browser back
 */
async function answerOf(at: "google" | "azure", person = "verified") {
  const path = at === "google" ? "/google/auth" : `${simulatedProviderPath("azure")}/oauth2/v2.0/authorize`;
  const open = openBrowser(server.origin);
  const query = new URLSearchParams({
    client_id: client.id,
    redirect_uri: client.redirectUri,
    response_type: "code",
    scope: "openid email profile",
    state: "a-state",
  });
  const page = await (await open(`${server.origin}${path}?${query}`)).text();
  const back = await open(/action="([^"]+)"/.exec(page)?.[1] ?? "", { person });
  const { code = "", state = "", iss } = Object.fromEntries(new URL(back.headers.get("location") ?? "").searchParams);
  return { code, state, issuer: iss };
}

describe("Custom OpenID providers", () => {
  test("discovers a custom provider at its URL, and identifies the user by its ID token", async () => {
    const okta = configured("okta", `${server.origin}/google/`);
    const { authorization_endpoint: endpoint } = await authorizationServer(parts(), okta.provider);
    expect(endpoint).toBe(`${server.origin}/google/auth`);
    const { profile, tokens } = await redeemCode(parts(), okta, await answerOf("google"));
    expect(tokens.accessToken).toEqual(expect.any(String));
    expect(profile).toMatchObject({
      emails: [{ email: "ada@people.example.test", verified: true, primary: true }],
      claims: { iss: `${server.origin}/google`, aud: [client.id], name: "Ada Verified" },
    });
  });

  test("reports a custom provider's unverified email as unverified", async () => {
    const okta = configured("okta", `${server.origin}/google`);
    const { profile } = await redeemCode(parts(), okta, await answerOf("google", "unverified"));
    expect(profile.emails).toEqual([{ email: "una@people.example.test", verified: false, primary: true }]);
  });

  test("refuses a custom provider if its discovery document names another issuer", async () => {
    const okta = configured("okta", `${server.origin.replace("127.0.0.1", "localhost")}/google`);
    await expect(authorizationServer(parts(), okta.provider)).rejects.toThrow("issuer");
  });
});

describe("The issuer in a provider's response (RFC 9207)", () => {
  test("accepts a response that names the requested provider as its issuer", async () => {
    const google = configured("google", `${server.origin}/google`);
    const answer = await answerOf("google");
    expect(answer.issuer).toBe(`${server.origin}/google`);
    await expect(redeemCode(parts(), google, answer)).resolves.toHaveProperty("profile");
  });

  test("refuses a response that names another issuer, or names none although the provider always sends one", async () => {
    const google = configured("google", `${server.origin}/google`);
    const answer = await answerOf("google");
    for (const issuer of [`${server.origin}/azure`, undefined]) {
      await expect(redeemCode(parts(), google, { ...answer, issuer })).rejects.toThrow(ExchangeError);
    }
  });
});

test("refuses an ID token that has expired by this server's clock", async () => {
  const later = () => new Date(Date.now() + 3_700_000);
  const azure = configured("azure", simulatedProviderBase(server.origin, "azure"));
  const late = redeemCode({ clock: later, discover: openDiscovery(later) }, azure, await answerOf("azure"));
  await expect(late).rejects.toThrow("exp");
});

describe("Unusable providers", () => {
  test.each(["discord", "kakao", "x"])("answers 501 for the unsupported provider %s, and names it", (name) => {
    expect(() => configured(name, "")).toThrow(
      expect.objectContaining({ status: 501, message: expect.stringContaining(name) }),
    );
  });

  test.each([
    ["okta", { GOTRUE_EXTERNAL_OKTA_URL: "" }],
    ["keycloak", { GOTRUE_EXTERNAL_KEYCLOAK_URL: "" }],
    ["google", { GOTRUE_EXTERNAL_GOOGLE_ENABLED: "false" }],
    ["google", { GOTRUE_EXTERNAL_GOOGLE_SECRET: "" }],
  ])("answers 400 for the incomplete or disabled provider %s: %j", (name, changes) => {
    expect(() => configured(name, server.origin, changes)).toThrow(expect.objectContaining({ status: 400 }));
  });

  test("answers 400 for an unconfigured provider", () => {
    expect(() => requireProvider({ config: { providers: readProviders({}) } }, "constructor")).toThrow(
      expect.objectContaining({ status: 400 }),
    );
  });
});
