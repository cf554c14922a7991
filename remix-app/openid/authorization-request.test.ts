import { expect, test } from "vitest";
import { pkceRequired, readAuthorizationRequest } from "./authorization-request.ts";

const query = (given: Record<string, string>) =>
  new URLSearchParams({
    client_id: "charts",
    redirect_uri: "https://charts.example/callback",
    response_type: "code",
    scope: "openid",
    ...given,
  });
const padded = (length: number) => {
  const { length: without } = `${query({ state: "" })}`;
  return query({ state: "s".repeat(length - without) });
};

test("accepts a request of 8,192 characters and refuses one of 8,193", () => {
  expect(readAuthorizationRequest(padded(8_192))).toMatchObject({ scopes: ["openid"] });
  expect(readAuthorizationRequest(padded(8_193))).toEqual({
    error: "invalid_request",
    description: "The authorization request has more than 8192 characters",
  });
});

test("reads a request without PKCE, which its client may need", () => {
  expect(readAuthorizationRequest(query({}))).toMatchObject({ codeChallenge: null });
});

test.each([
  [{ code_challenge: "c".repeat(43), code_challenge_method: "plain" }, "S256"],
  [{ code_challenge: "c".repeat(43) }, "S256"],
  [{ code_challenge: "c".repeat(42), code_challenge_method: "S256" }, "43"],
  [{ claims: "email" }, "claims must be JSON"],
])("refuses %j", (given, reason) => {
  expect(readAuthorizationRequest(query(given))).toMatchObject({
    error: "invalid_request",
    description: expect.stringContaining(reason),
  });
});

test("the error about PKCE names the switches of common clients", () => {
  // https://oauth2-proxy.github.io/oauth2-proxy/configuration/overview, https://docs.authlib.org/en/latest/client/oauth2.html,
  // https://mozilla-django-oidc.readthedocs.io/en/stable/settings.html, https://authjs.dev/reference/core/providers,
  // https://docs.allauth.org/en/latest/socialaccount/provider_configuration.html
  for (const name of [
    "code_challenge_method=S256",
    "OIDC_USE_PKCE=True",
    "OAUTH_PKCE_ENABLED=True",
    "checks: [pkce]",
    "use_pkce=true",
    "passport-openidconnect",
  ]) {
    expect(pkceRequired.description).toContain(name);
  }
  // RFC 6749 section 4.1.2.1 allows no quotation marks and backslashes in error_description.
  expect(pkceRequired.description).toMatch(/^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/);
});
