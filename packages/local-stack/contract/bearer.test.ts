import { randomUUID } from "node:crypto";
import { SignJWT } from "jose";
import { describe, expect, test } from "vitest";
import { forgeToken, inAnHour, newAccount, newSession } from "./support/accounts.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { target } from "./support/target.ts";

const userClaims = (id: string) => ({ sub: id, aud: "authenticated", role: "authenticated", exp: inAnHour() });

describe("a user's bearer token", () => {
  test("GET /user accepts a user's bearer token", async () => {
    const { account, accessToken } = await newSession();
    expect(expectOk(await call("GET /user", { bearer: accessToken }))).toMatchObject({ id: account.id });
  });

  test("GET /user requires a bearer token: 401 no_authorization", async () => {
    expectRefusal(await call("GET /user"), 401, "no_authorization");
  });

  test.each(["Basic abc", "Bearer", "Bearer a b"])(
    "refuses the Authorization header %s with 401 no_authorization",
    async (header) => {
      expectRefusal(await call("GET /user", { headers: { Authorization: header } }), 401, "no_authorization");
    },
  );

  test("accepts the Bearer scheme in any case", async () => {
    const { accessToken } = await newSession();
    expectOk(await call("GET /user", { headers: { Authorization: `bearer ${accessToken}` } }));
  });

  test("refuses a bearer token that is not a JWT with 403 bad_jwt", async () => {
    expectRefusal(await call("GET /user", { bearer: "sb_publishable_x" }), 403, "bad_jwt");
  });

  test("returns 403 bad_jwt for a bearer token whose payload was changed", async () => {
    const { accessToken } = await newSession();
    const [head, , signature] = accessToken.split(".");
    const payload = Buffer.from(JSON.stringify(userClaims(randomUUID()))).toString("base64url");
    expectRefusal(await call("GET /user", { bearer: `${head}.${payload}.${signature}` }), 403, "bad_jwt");
  });

  test("refuses an expired bearer token with 403 bad_jwt, not 401", async () => {
    const { id } = await newAccount();
    const bearer = await forgeToken({ ...userClaims(id), exp: inAnHour() - 3_660 });
    expectRefusal(await call("GET /user", { bearer }), 403, "bad_jwt");
  });

  test("a bearer token signed with another secret is refused: 403 bad_jwt", async () => {
    const { id } = await newAccount();
    const bearer = await forgeToken(userClaims(id), "another-secret-that-is-long-enough-too");
    expectRefusal(await call("GET /user", { bearer }), 403, "bad_jwt");
  });

  test.each([
    { sub: 5 },
    { aud: 5 },
    { role: 5 },
    { role: ["service_role"] },
    { email: 5 },
    { amr: "password" },
    { app_metadata: "x" },
  ])(
    "refuses a bearer token with a claim of the wrong type with 403 bad_jwt, even from an administrator: %j",
    async (claim) => {
      const { id } = await newAccount();
      const bearer = await forgeToken({ ...userClaims(id), ...claim });
      expectRefusal(await call("GET /user", { bearer }), 403, "bad_jwt");
      expectRefusal(await call("GET /admin/users", { bearer }), 403, "bad_jwt");
    },
  );

  test("refuses a bearer token with alg none with 403 bad_jwt", async () => {
    const { id } = await newAccount();
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const bearer = `${part({ alg: "none", typ: "JWT" })}.${part(userClaims(id))}.`;
    expectRefusal(await call("GET /user", { bearer }), 403, "bad_jwt");
  });

  test("answers 403 bad_jwt to a bearer token whose algorithm has no key", async () => {
    const { id } = await newAccount();
    const bearer = await new SignJWT(userClaims(id))
      .setProtectedHeader({ alg: "HS512" })
      .sign(new TextEncoder().encode(target.jwtSecret));
    expectRefusal(await call("GET /user", { bearer }), 403, "bad_jwt");
  });

  test("refuses a bearer token that is signed by HS256 with the public key as the secret: 403 bad_jwt", async () => {
    const { id } = await newAccount();
    const { text } = await call("GET /.well-known/jwks.json");
    const bearer = await new SignJWT(userClaims(id))
      .setProtectedHeader({ alg: "HS256", kid: JSON.parse(text).keys[0].kid })
      .sign(new TextEncoder().encode(JSON.stringify(JSON.parse(text).keys[0])));
    expectRefusal(await call("GET /user", { bearer }), 403, "bad_jwt");
  });

  test("accepts a bearer token signed by HS256 with the shared secret", async () => {
    const { id } = await newAccount();
    expectOk(await call("GET /user", { bearer: await forgeToken(userClaims(id)) }));
  });

  test("refuses a bearer token without sub with 403 bad_jwt", async () => {
    expectRefusal(await call("GET /user", { bearer: target.serviceKey }), 403, "bad_jwt");
  });

  test("refuses a bearer token with 400 bad_jwt if sub is not a UUID", async () => {
    const bearer = await forgeToken(userClaims("someone"));
    expectRefusal(await call("GET /user", { bearer }), 400, "bad_jwt");
  });

  test("refuses a deleted user's bearer token with 403 user_not_found", async () => {
    const { account, accessToken } = await newSession();
    expectOk(await admin(`DELETE /admin/users/${account.id}`));
    expectRefusal(await call("GET /user", { bearer: accessToken }), 403, "user_not_found");
  });

  test("refuses a bearer token with 403 session_not_found once its session has ended", async () => {
    const { accessToken } = await newSession();
    expectOk(await call("POST /logout", { bearer: accessToken }), 204);
    expectRefusal(await call("GET /user", { bearer: accessToken }), 403, "session_not_found");
  });

  test("refuses a banned user's bearer token with 403 user_banned", async () => {
    const { account, accessToken } = await newSession();
    expectOk(await admin(`PUT /admin/users/${account.id}`, { body: { ban_duration: "1h" } }));
    expectRefusal(await call("GET /user", { bearer: accessToken }), 403, "user_banned");
  });

  test("accepts a bearer token from any issuer", async () => {
    const { id } = await newAccount();
    expectOk(await call("GET /user", { bearer: await forgeToken({ ...userClaims(id), iss: "https://other.test" }) }));
  });

  test("refuses a bearer token with 400 validation_failed if its audience differs from the request's", async () => {
    const { accessToken } = await newSession();
    const answer = await call("GET /user", { bearer: accessToken, headers: { "X-JWT-AUD": "other" } });
    expectRefusal(answer, 400, "validation_failed");
  });
});

describe("an administrator's bearer token", () => {
  test("/admin accepts a bearer token with the role service_role", async () => {
    expectOk(await admin("GET /admin/users?per_page=1"));
  });

  test("/admin accepts a bearer token with the role supabase_admin", async () => {
    const bearer = await forgeToken({ role: "supabase_admin", exp: inAnHour() });
    expectOk(await call("GET /admin/users?per_page=1", { bearer }));
  });

  test("/admin requires a bearer token: 401 no_authorization", async () => {
    expectRefusal(await call("GET /admin/users"), 401, "no_authorization");
  });

  test("/admin refuses a user's token with 403 not_admin", async () => {
    const { accessToken } = await newSession();
    expectRefusal(await call("GET /admin/users", { bearer: accessToken }), 403, "not_admin");
  });

  test("/admin refuses a token with the role anon with 403 not_admin", async () => {
    const bearer = await forgeToken({ role: "anon", exp: inAnHour() });
    expectRefusal(await call("POST /admin/generate_link", { bearer, body: {} }), 403, "not_admin");
  });

  test("/admin refuses a token that names a nonexistent session with 403 session_not_found", async () => {
    const { account, id, accessToken } = await newSession();
    const claims = { sub: account.id, role: "service_role", session_id: id, exp: inAnHour() };
    const bearer = await forgeToken(claims);
    expectOk(await call("GET /admin/users?per_page=1", { bearer }));
    expectOk(await call("POST /logout", { bearer: accessToken }), 204);
    expectRefusal(await call("GET /admin/users?per_page=1", { bearer }), 403, "session_not_found");
  });
});
