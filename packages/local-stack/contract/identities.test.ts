import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { newSession, sessionOf } from "./support/accounts.ts";
import { type Answer, admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { admit, app, newPerson, oauthFlow } from "./support/oauth-flow.ts";
import type { Person } from "./support/oauth-provider.ts";
import { featuresOff } from "./support/settings.ts";
import { target } from "./support/target.ts";
import { describeVariant } from "./support/variant.ts";

describe("sign-in with providers", () => {
  const { get, finish, signInAs, userOf } = oauthFlow();

  describe("manual linking", () => {
    const link = async (bearer: string, person: Person) => {
      const path = `/user/identities/authorize?provider=keycloak&skip_http_redirect=true&redirect_to=${encodeURIComponent(app)}`;
      const { url } = expectOk(await get(path, { bearer }));
      return finish(new URL(url).searchParams.get("state") ?? "", { code: await admit(person) });
    };

    test("linking an identity returns 200 with the URL, and the callback adds the identity and creates a new session", async () => {
      const { account, id, accessToken } = await newSession();
      const person = newPerson();
      const { fragment } = await link(accessToken, person);
      const session = sessionOf(fragment);
      expect(session.id).not.toBe(id);
      const user = await userOf(fragment);
      expect(user).toMatchObject({ id: account.id, email: account.email });
      expect(user.identities).toHaveLength(2);
      expectOk(await get("/user", { bearer: accessToken }));
    });

    test("linking an identity redirects with 302 if the request does not set skip_http_redirect", async () => {
      const { accessToken } = await newSession();
      const answer = await get("/user/identities/authorize?provider=keycloak", { bearer: accessToken });
      expect(answer.status).toBe(302);
    });

    test("refuses to link an identity that is already linked, even to the same user, with identity_already_exists", async () => {
      const person = newPerson();
      await signInAs(person);
      const { accessToken } = await newSession();
      const first = await link(accessToken, person);
      expect(first.query).toMatchObject({ error: "server_error", error_code: "identity_already_exists" });
      const mine = newPerson();
      await link(accessToken, mine);
      expect((await link(accessToken, mine)).query.error_code).toBe("identity_already_exists");
    });

    test("linking an identity without a bearer token is refused with 401 no_authorization", async () => {
      expectRefusal(await get("/user/identities/authorize?provider=keycloak"), 401, "no_authorization");
    });

    test.each<[string, (session: Awaited<ReturnType<typeof newSession>>) => Promise<Answer>]>([
      ["signed out", ({ accessToken }) => call("POST /logout", { bearer: accessToken })],
      ["banned", ({ account }) => admin(`PUT /admin/users/${account.id}`, { body: { ban_duration: "1h" } })],
    ])("linking that began before the user was %s can still be completed", async (how, end) => {
      const session = await newSession();
      const path = `/user/identities/authorize?provider=keycloak&skip_http_redirect=true`;
      const { url } = expectOk(await get(path, { bearer: session.accessToken }));
      expect((await end(session)).status).toBeLessThan(300);
      const state = new URL(url).searchParams.get("state") ?? "";
      const { fragment } = await finish(state, { code: await admit(newPerson()) });
      expect(sessionOf(fragment).claims.sub).toBe(session.account.id);
      const answer = await get("/user", { bearer: fragment.access_token });
      if (how === "banned") expectRefusal(answer, 403, "user_banned");
      else expect(expectOk(answer).identities).toHaveLength(2);
    });

    const unlink = (bearer: string, id: string) => call(`DELETE /user/identities/${id}`, { bearer, url: target.url });
    const identityIds = async (bearer: string): Promise<Record<string, string>> =>
      Object.fromEntries(
        expectOk(await get("/user", { bearer })).identities.map(
          ({ provider: name, identity_id }: { provider: string; identity_id: string }) => [name, identity_id],
        ),
      );

    test("unlinking removes the identity from the user's identities and providers, and keeps sessions", async () => {
      const { accessToken } = await newSession();
      await link(accessToken, newPerson());
      const { keycloak = "" } = await identityIds(accessToken);
      expect(expectOk(await unlink(accessToken, keycloak))).toEqual({});
      const user = expectOk(await get("/user", { bearer: accessToken }));
      expect(user.identities).toMatchObject([{ provider: "email" }]);
      expect(user.app_metadata.providers).toEqual(["email"]);
    });

    test("refuses to unlink the last identity with 422 single_identity_not_deletable", async () => {
      const { accessToken } = await newSession();
      const { email = "" } = await identityIds(accessToken);
      expectRefusal(await unlink(accessToken, email), 422, "single_identity_not_deletable");
    });

    test("refuses to unlink an unknown identity with 422 identity_not_found, and an invalid UUID with 404", async () => {
      const { accessToken } = await newSession();
      await link(accessToken, newPerson());
      expectRefusal(await unlink(accessToken, randomUUID()), 422, "identity_not_found");
      expectRefusal(await unlink(accessToken, "1"), 404, "validation_failed");
    });

    test("unlinking the identity with the account's email changes the account's email to that of another identity", async () => {
      const { accessToken } = await newSession();
      const person = newPerson();
      await link(accessToken, person);
      const { email = "" } = await identityIds(accessToken);
      expectOk(await unlink(accessToken, email));
      expect(expectOk(await get("/user", { bearer: accessToken })).email).toBe(person.email);
    });
  });
});

describeVariant("linking by hand off", featuresOff, (url) => {
  test("linking and unlinking are refused with 404 manual_linking_disabled if manual linking is off", async () => {
    const { accessToken } = await newSession();
    const options = { bearer: accessToken, url: url() };
    const linked = await call("GET /user/identities/authorize?provider=keycloak", options);
    expectRefusal(linked, 404, "manual_linking_disabled");
    expectRefusal(await call(`DELETE /user/identities/${randomUUID()}`, options), 404, "manual_linking_disabled");
  });
});
