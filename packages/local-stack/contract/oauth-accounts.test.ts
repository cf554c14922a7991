import { describe, expect, test } from "vitest";
import { newAccount, newEmail, password } from "./support/accounts.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { mailsTo, nextMail } from "./support/mail.ts";
import { admit, newPerson, newSubject, oauthFlow } from "./support/oauth-flow.ts";
import { featuresOff } from "./support/settings.ts";
import { describeVariant } from "./support/variant.ts";

describe("sign-in with providers", () => {
  const { signInAs, userOf } = oauthFlow();

  describe("which account a provider sign-in uses", () => {
    test("a provider sign-in with a verified email is linked to the account that has the email", async () => {
      const { id, email } = await newAccount();
      const user = await userOf((await signInAs(newPerson({ email: email.toUpperCase() }))).fragment);
      expect(user.id).toBe(id);
      expect(user.app_metadata.providers).toEqual(["email", "keycloak"]);
      expectOk(await call("POST /token?grant_type=password", { body: { email, password } }));
    });

    test("a provider sign-in with an unverified email sends a confirmation email and returns provider_email_needs_verification", async () => {
      const person = newPerson({ verified: false });
      const { query, fragment } = await signInAs(person);
      expect(query).toMatchObject({ error: "access_denied", error_code: "provider_email_needs_verification" });
      expect(fragment).not.toHaveProperty("access_token");
      const { tokenHash } = await nextMail(person.email ?? "");
      const verified = await call("POST /verify", { body: { type: "signup", token_hash: tokenHash } });
      expect(expectOk(verified).user.email).toBe(person.email);
      expect((await signInAs(person)).fragment).toHaveProperty("access_token");
    });

    test("a provider sign-in with an unverified email neither changes nor emails the account that has the email", async () => {
      const { id, email } = await newAccount();
      const { query } = await signInAs(newPerson({ email, verified: false }));
      expect(query.error_code).toBe("provider_email_needs_verification");
      const user = expectOk(await admin(`GET /admin/users/${id}`));
      expect(user.identities.map((identity: { provider: string }) => identity.provider)).toEqual(["email"]);
      expect(await mailsTo(email)).toEqual([]);
    });

    test("a provider sign-in removes the password and other identities when it links to an unconfirmed account", async () => {
      const email = newEmail();
      const { id } = expectOk(await call("POST /signup", { body: { email, password } }));
      const user = await userOf((await signInAs(newPerson({ email }))).fragment);
      expect(user).toMatchObject({ id, email_confirmed_at: expect.any(String) });
      expect(user.identities.map((identity: { provider: string }) => identity.provider)).toEqual(["keycloak"]);
      const answer = await call("POST /token?grant_type=password", { body: { email, password } });
      expectRefusal(answer, 400, "invalid_credentials");
    });
  });

  describe("provider sign-ins with several emails", () => {
    test("an identity whose verified emails belong to two accounts gets server_error and changes neither account", async () => {
      const [one, other] = [await newAccount(), await newAccount()];
      const { query } = await signInAs(newPerson({ email: one.email, others: [other.email] }), { provider: "github" });
      expect(query).toMatchObject({ error: "server_error", error_code: "unexpected_failure" });
      for (const { id } of [one, other]) {
        expect(expectOk(await admin(`GET /admin/users/${id}`)).identities).toHaveLength(1);
      }
    });

    test("a provider sign-in finds the account by a verified secondary email if the primary email is unverified", async () => {
      const { id, email } = await newAccount();
      const person = newPerson({ verified: false, others: [email] });
      const user = await userOf((await signInAs(person, { provider: "github" })).fragment);
      expect(user).toMatchObject({ id, email });
    });

    test("the same subject at two providers belongs to two accounts", async () => {
      const sub = newSubject();
      const one = await userOf((await signInAs(newPerson({ sub }))).fragment);
      const two = await userOf((await signInAs(newPerson({ sub }), { provider: "github" })).fragment);
      expect(two.id).not.toBe(one.id);
    });
  });
});

describeVariant("sign-ups off", featuresOff, (url) => {
  test("with sign-ups off, a provider sign-in refuses new people with access_denied and signup_disabled, but not existing users", async () => {
    const { email } = await newAccount();
    for (const [person, expected] of [
      [newPerson(), "signup_disabled"],
      [newPerson({ email }), undefined],
    ] as const) {
      const begun = await call("GET /authorize?provider=keycloak", { url: url() });
      const state = new URL(begun.location).searchParams.get("state") ?? "";
      const query = new URLSearchParams({ state, code: await admit(person) });
      const { location } = await call(`GET /callback?${query}`, { url: url() });
      expect(new URL(location).searchParams.get("error_code") ?? undefined).toBe(expected);
    }
  });
});
