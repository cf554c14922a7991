import { describe, expect, test } from "vitest";
import { newEmail, password } from "./support/accounts.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { nextMail } from "./support/mail.ts";
import { admit, app, newPerson, oauthFlow } from "./support/oauth-flow.ts";

const { get, begin, finish, signInAs, userOf } = oauthFlow();

async function invite(): Promise<{ id: string; email: string; invite_token: string }> {
  const email = newEmail();
  const { id } = expectOk(await admin("POST /invite", { body: { email, data: { team: "blue" } } }));
  return { id, email, invite_token: (await nextMail(email)).tokenHash };
}

describe("/authorize with an invitation", () => {
  test("/authorize refuses an unknown invitation with 404, after checking the provider but before the PKCE parameters", async () => {
    expectRefusal(await get("/authorize?provider=keycloak&invite_token=none"), 404, "user_not_found");
    expectRefusal(await get("/authorize?provider=none&invite_token=none"), 400, "validation_failed");
    const half = "/authorize?provider=keycloak&code_challenge=x&invite_token=none";
    expectRefusal(await get(half), 404, "user_not_found");
  });

  test("a provider sign-in with the invited email accepts the invitation, whether or not the email is verified", async () => {
    for (const verified of [true, false]) {
      const { id, email, invite_token } = await invite();
      const { fragment } = await signInAs(newPerson({ email, verified }), { invite_token });
      const user = await userOf(fragment);
      expect(user).toMatchObject({
        id,
        email,
        email_confirmed_at: expect.any(String),
        app_metadata: { provider: "keycloak", providers: ["keycloak"] },
      });
      expect(user.identities.map((identity: { provider: string }) => identity.provider)).toEqual(["keycloak"]);
    }
  });

  test("an identity with another email gets validation_failed and leaves the invitation pending", async () => {
    const { id, email, invite_token } = await invite();
    const { query, fragment } = await signInAs(newPerson(), { invite_token });
    expect(query).toMatchObject({ error: "invalid_request", error_code: "validation_failed" });
    expect(fragment).not.toHaveProperty("access_token");
    expect(expectOk(await admin(`GET /admin/users/${id}`))).not.toHaveProperty("email_confirmed_at");
    expect((await signInAs(newPerson({ email }), { invite_token })).fragment).toHaveProperty("access_token");
  });

  test("a provider sign-in returns invite_not_found if the invitation was accepted by email in the meantime", async () => {
    const { email, invite_token } = await invite();
    const { state } = await begin({ invite_token, redirect_to: app });
    expectOk(await call("POST /verify", { body: { type: "invite", token_hash: invite_token } }));
    const { query } = await finish(state, { code: await admit(newPerson({ email })) });
    expect(query.error_code).toBe("invite_not_found");
  });

  test("a provider sign-in with an invitation returns server_error if the identity belongs to another account", async () => {
    const { email, invite_token } = await invite();
    const person = newPerson();
    await signInAs(person);
    const { query } = await signInAs({ ...person, email }, { invite_token });
    expect(query).toMatchObject({ error: "server_error", error_code: "unexpected_failure" });
  });

  test("accepting an invitation removes a password that someone else has set on the invited account", async () => {
    const { email, invite_token } = await invite();
    await call("POST /signup", { body: { email, password } });
    const token = (await nextMail(email, 1).catch(() => undefined))?.tokenHash ?? invite_token;
    await signInAs(newPerson({ email }), { invite_token: token });
    const answer = await call("POST /token?grant_type=password", { body: { email, password } });
    expectRefusal(answer, 400, "invalid_credentials");
  });
});
