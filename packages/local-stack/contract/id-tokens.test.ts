import { describe, expect, test } from "vitest";
import { newPerson, oauthFlow } from "./support/oauth-flow.ts";
import type { Person } from "./support/oauth-provider.ts";
import { describeWithInternet } from "./support/variant.ts";

const { signInAs } = oauthFlow();
const now = () => Math.floor(Date.now() / 1_000);

/** Invalid ID tokens, none of which may sign in. OpenID Connect Core section 3.1.3.7. */
const faults: [string, () => Partial<Person>][] = [
  ["is for another client", () => ({ claims: { aud: "another" } })],
  ["is for two other clients", () => ({ claims: { aud: ["another", "third"] } })],
  ["names no audience", () => ({ claims: { aud: null } })],
  ["names an unknown issuer", () => ({ claims: { iss: "https://issuer.example.test" } })],
  ["names no issuer", () => ({ claims: { iss: null } })],
  ["expired a minute ago", () => ({ claims: { iat: now() - 600, exp: now() - 60 } })],
  ["never expires", () => ({ claims: { exp: null } })],
  ["is not valid until ten minutes from now", () => ({ claims: { nbf: now() + 600 } })],
  ["is signed with another party's key", () => ({ signature: "stranger" })],
  ["is signed with the client's secret", () => ({ signature: "client" })],
  ["is not signed", () => ({ signature: "none" })],
  ["belongs to another access token", () => ({ claims: { at_hash: "AAAAAAAAAAAAAAAAAAAAAA" } })],
];

function casesOf(provider: string): void {
  test("accepts a valid ID token, also with a nonce and several audiences that include this client", async () => {
    expect((await signInAs(newPerson(), { provider })).fragment).toHaveProperty("access_token");
    const person = newPerson({ claims: { aud: ["another", "client"], azp: "client", nonce: "passed-on" } });
    expect((await signInAs(person, { provider, nonce: "passed-on" })).fragment).toHaveProperty("access_token");
  });

  test.each(faults)("an ID token that %s is refused with server_error and creates no session", async (_, fault) => {
    const { query, fragment } = await signInAs(newPerson(fault()), { provider });
    expect(query).toMatchObject({ error: "server_error", error_code: "unexpected_failure" });
    expect(query.error_description).toBe("Error getting user profile from external provider");
    expect(fragment).not.toHaveProperty("access_token");
  });
}

describe("ID tokens from azure", () => {
  casesOf("azure");

  test("a missing ID token is refused with server_error", async () => {
    const { query } = await signInAs(newPerson({ withoutIdToken: true }), { provider: "azure" });
    expect(query.error_code).toBe("unexpected_failure");
  });
});

describeWithInternet("ID tokens of providers of fixed addresses:", () => {
  describe.each(["google", "linkedin_oidc"])("ID tokens from %s", (provider) => {
    casesOf(provider);

    test("an ID token from another provider's issuer is refused with server_error", async () => {
      const iss = "https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0";
      const { query } = await signInAs(newPerson({ claims: { iss } }), { provider });
      expect(query.error_code).toBe("unexpected_failure");
    });
  });
});
