import { describe, expect, test } from "vitest";
import { newEmail } from "./support/accounts.ts";
import { call } from "./support/http.ts";
import { admit, newPerson, oauthFlow } from "./support/oauth-flow.ts";
import type { Person } from "./support/oauth-provider.ts";
import { target as server } from "./support/target.ts";
import { describeWithInternet } from "./support/variant.ts";

const { begin, signInAs, userOf } = oauthFlow();
const face = "https://faces.example.test/1";

type Case = {
  provider: string;
  authorize: string;
  scope: string;
  person?: Partial<Person>;
  /** The data that the identity stores in addition to its subject and email. */
  kept: (person: Person) => Record<string, unknown>;
};

const atPath: Case[] = [
  {
    provider: "keycloak",
    authorize: "/keycloak/protocol/openid-connect/auth",
    scope: "profile email",
    kept: ({ sub }) => ({
      iss: `${server.providerUrl}/keycloak`,
      name: "Someone",
      full_name: "Someone",
      provider_id: sub,
      custom_claims: { group: "staff" },
    }),
  },
  {
    provider: "github",
    authorize: "/github/login/oauth/authorize",
    scope: "user:email",
    person: { others: [newEmail()] },
    kept: ({ sub }) => ({
      iss: `${server.providerUrl}/github/api/v3`,
      name: "Someone",
      full_name: "Someone",
      preferred_username: "someone",
      user_name: "someone",
      avatar_url: face,
      provider_id: sub,
    }),
  },
  {
    provider: "gitlab",
    authorize: "/gitlab/oauth/authorize",
    scope: "read_user",
    person: { others: [newEmail()] },
    kept: ({ sub }) => ({
      iss: `${server.providerUrl}/gitlab`,
      name: "Someone",
      full_name: "Someone",
      picture: face,
      avatar_url: face,
      provider_id: sub,
    }),
  },
  {
    provider: "slack_oidc",
    authorize: "/slack_oidc/openid/connect/authorize",
    scope: "profile email openid",
    kept: ({ sub }) => ({
      iss: `${server.providerUrl}/slack_oidc/api`,
      name: "Someone",
      full_name: "Someone",
      picture: face,
      avatar_url: face,
      provider_id: sub,
      custom_claims: { "https://slack.com/team_id": "T1" },
    }),
  },
  {
    provider: "azure",
    authorize: "/azure/oauth2/v2.0/authorize",
    scope: "openid",
    kept: ({ email }) => ({
      iss: `${server.providerUrl}/azure`,
      aud: ["client"],
      iat: expect.any(Number),
      exp: expect.any(Number),
      name: "Someone",
      preferred_username: email,
    }),
  },
];

const onTheInternet: Case[] = [
  {
    provider: "google",
    authorize: "https://accounts.google.com/o/oauth2/v2/auth",
    scope: "email profile",
    kept: ({ sub }) => ({
      iss: "https://accounts.google.com",
      name: "Someone",
      full_name: "Someone",
      picture: face,
      avatar_url: face,
      provider_id: sub,
    }),
  },
  {
    provider: "google",
    authorize: "https://accounts.google.com/o/oauth2/v2/auth",
    scope: "email profile",
    person: { claims: { hd: "example.test", name: "" } },
    kept: ({ sub }) => ({
      iss: "https://accounts.google.com",
      picture: face,
      avatar_url: face,
      provider_id: sub,
      custom_claims: { hd: "example.test" },
    }),
  },
  {
    provider: "linkedin_oidc",
    authorize: "https://api.linkedin.com/oauth/v2/authorization",
    scope: "openid email profile",
    kept: ({ sub }) => ({
      iss: "https://www.linkedin.com/oauth",
      name: "Some One",
      given_name: "Some",
      family_name: "One",
      picture: face,
      provider_id: sub,
    }),
  },
];

function casesOf({ provider, authorize, scope, person: fields, kept }: Case): void {
  test("/authorize redirects to the provider's URL with the provider's and the client's scopes", async () => {
    const { target } = await begin({ provider, scopes: "one,two" });
    expect(target.origin + target.pathname).toBe(new URL(authorize, server.providerUrl).href);
    expect(target.searchParams.get("scope")).toBe(`${scope} one two`);
    expect(target.searchParams.get("client_id")).toBe("client");
    expect(target.searchParams.get("redirect_uri")).toBe("https://api.example.test/auth/v1/callback");
  });

  test("the identity stores the data that the provider returns", async () => {
    const person = newPerson(fields);
    const user = await userOf((await signInAs(person, { provider })).fragment);
    const data = { sub: person.sub, email: person.email, email_verified: true, phone_verified: false };
    expect(user).toMatchObject({ email: person.email, app_metadata: { provider, providers: [provider] } });
    expect(user.identities).toMatchObject([{ provider, id: person.sub }]);
    expect(user.identities[0].identity_data).toEqual({ ...data, ...kept(person) });
    expect(user.user_metadata).toEqual(user.identities[0].identity_data);
  });

  test("a provider sign-in with only an unverified email creates no session", async () => {
    const { query, fragment } = await signInAs(newPerson({ ...fields, others: [], verified: false }), { provider });
    expect(query).toMatchObject({ error: "access_denied", error_code: "provider_email_needs_verification" });
    expect(fragment).not.toHaveProperty("access_token");
  });

  test("a made-up provider code is refused with server_error", async () => {
    const { state } = await begin({ provider });
    const { location } = await call(`GET /callback?${new URLSearchParams({ state, code: "made-up" })}`);
    const query = new URL(location).searchParams;
    expect(query.get("error_code")).toBe("unexpected_failure");
    expect(query.get("error_description")).toBe("Unable to exchange external code: made");
  });
}

describe.each(atPath)("signing in with $provider", casesOf);

describeWithInternet("signing in with providers of fixed addresses:", () => {
  describe.each(onTheInternet)("signing in with $provider at its public address", casesOf);

  describe("signing in with apple", () => {
    const provider = "apple";
    const post = (state: string, fields: Record<string, string>) =>
      call("POST /callback", { rawBody: new URLSearchParams({ state, ...fields }) });
    const fragmentOf = (location: string) => Object.fromEntries(new URLSearchParams(new URL(location).hash.slice(1)));

    test("/authorize with apple requests a form_post response and ignores the client's scopes and other parameters", async () => {
      const { target } = await begin({ provider, scopes: "one,two", prompt: "login" });
      expect(target.origin + target.pathname).toBe("https://appleid.apple.com/auth/authorize");
      expect(Object.fromEntries(target.searchParams)).toEqual({
        client_id: "client",
        redirect_uri: "https://api.example.test/auth/v1/callback",
        response_type: "code",
        response_mode: "form_post",
        scope: "email name",
        state: target.searchParams.get("state"),
      });
    });

    test("the identity stores the data that apple returns, including the name, which apple posts only once", async () => {
      const person = newPerson({ claims: { auth_time: 1_700_000_000 } });
      const { state } = await begin({ provider });
      const user = JSON.stringify({ name: { firstName: "Ada", lastName: "Lovelace" }, email: "other@example.test" });
      const answer = await post(state, { code: await admit(person, provider), user });
      const account = await userOf(fragmentOf(answer.location));
      expect(account.email).toBe(person.email);
      const data = {
        iss: "https://appleid.apple.com",
        sub: person.sub,
        provider_id: person.sub,
        email: person.email,
        email_verified: true,
        phone_verified: false,
        custom_claims: { is_private_email: true, auth_time: 1_700_000_000 },
      };
      const named = { ...data, name: "Ada Lovelace", full_name: "Ada Lovelace" };
      expect(account.identities[0].identity_data).toEqual(named);

      const again = await begin({ provider });
      const later = await post(again.state, { code: await admit(person, provider) });
      const { identities, user_metadata: metadata } = await userOf(fragmentOf(later.location));
      expect(identities[0].identity_data).toEqual(data);
      expect(metadata.full_name).toBe("Ada Lovelace");
    });

    test("a sign-in with apple gets server_error and no session if the posted user data is not JSON", async () => {
      const { state } = await begin({ provider });
      const answer = await post(state, { code: await admit(newPerson(), provider), user: "no JSON" });
      expect(new URL(answer.location).searchParams.get("error")).toBe("server_error");
      expect(fragmentOf(answer.location)).not.toHaveProperty("access_token");
    });

    test("every email from apple counts as verified, regardless of email_verified", async () => {
      const person = newPerson({ verified: false });
      expect((await userOf((await signInAs(person, { provider })).fragment)).email).toBe(person.email);
    });

    test("a sign-in with apple also accepts the issuer account.apple.com", async () => {
      const person = newPerson({ claims: { iss: "https://account.apple.com" } });
      const user = await userOf((await signInAs(person, { provider })).fragment);
      expect(user.identities[0].identity_data.iss).toBe("https://account.apple.com");
    });
  });

  describe("azure with Microsoft's own tokens", () => {
    const provider = "azure";
    const iss = "https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0";

    test("the identity stores what azure returns, except the protocol's own claims", async () => {
      const person = newPerson({ claims: { iss, tid: "9188040d", ver: "2.0", uti: "u", xms_edov: "1" } });
      const user = await userOf((await signInAs(person, { provider })).fragment);
      expect(user.identities[0].identity_data).toEqual({
        iss,
        sub: person.sub,
        provider_id: person.sub,
        full_name: "Someone",
        preferred_username: person.email,
        email: person.email,
        email_verified: true,
        phone_verified: false,
        custom_claims: { email: person.email, email_verified: true, tid: "9188040d", xms_edov: "1" },
      });
    });

    test.each([undefined, true, "1", "true"])("an azure email with xms_edov %j is verified", async (xms_edov) => {
      const person = newPerson({ verified: false, claims: { iss, ...(xms_edov ? { xms_edov } : {}) } });
      expect((await signInAs(person, { provider })).fragment).toHaveProperty("access_token");
    });

    test.each([false, "0", "false", "", 1])("an azure email with xms_edov %j is not verified", async (xms_edov) => {
      const { query } = await signInAs(newPerson({ claims: { iss, xms_edov } }), { provider });
      expect(query.error_code).toBe("provider_email_needs_verification");
    });
  });
});
