import { randomUUID } from "node:crypto";
import { SignJWT } from "jose";
import { describe, expect, test } from "vitest";
import { forgeToken, inAnHour, newAccount, newSession } from "./support/accounts.ts";
import { admin, call, expectOk, expectRefusal } from "./support/http.ts";
import { target } from "./support/target.ts";

const userClaims = (id: string) => ({ sub: id, aud: "authenticated", role: "authenticated", exp: inAnHour() });

describe("a user's bearer token", () => {
  test("opens GET /user", async () => {
    const { account, accessToken } = await newSession();
    expect(expectOk(await call("GET /user", { bearer: accessToken }))).toMatchObject({ id: account.id });
  });

  test("is required: 401 no_authorization", async () => {
    expectRefusal(await call("GET /user"), 401, "no_authorization");
  });

  test.each(["Basic abc", "Bearer", "Bearer a b"])("is not accepted as %s: 401 no_authorization", async (header) => {
    expectRefusal(await call("GET /user", { headers: { Authorization: header } }), 401, "no_authorization");
  });

  test("may spell its scheme in any case", async () => {
    const { accessToken } = await newSession();
    expectOk(await call("GET /user", { headers: { Authorization: `bearer ${accessToken}` } }));
  });

  test("is refused with 403 bad_jwt if it is not a JWT", async () => {
    expectRefusal(await call("GET /user", { bearer: "sb_publishable_x" }), 403, "bad_jwt");
  });

  test("is refused with 403 bad_jwt if its payload was changed", async () => {
    const { accessToken } = await newSession();
    const [head, , signature] = accessToken.split(".");
    const payload = Buffer.from(JSON.stringify(userClaims(randomUUID()))).toString("base64url");
    expectRefusal(await call("GET /user", { bearer: `${head}.${payload}.${signature}` }), 403, "bad_jwt");
  });

  test("is refused with 403 bad_jwt, not 401, once it has expired", async () => {
    const { id } = await newAccount();
    const bearer = await forgeToken({ ...userClaims(id), exp: inAnHour() - 3_660 });
    expectRefusal(await call("GET /user", { bearer }), 403, "bad_jwt");
  });

  test("is refused with 403 bad_jwt if signed with another secret", async () => {
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
  ])("is refused with 403 bad_jwt if a claim has the wrong type, %j, also for administrators", async (claim) => {
    const { id } = await newAccount();
    const bearer = await forgeToken({ ...userClaims(id), ...claim });
    expectRefusal(await call("GET /user", { bearer }), 403, "bad_jwt");
    expectRefusal(await call("GET /admin/users", { bearer }), 403, "bad_jwt");
  });

  test("is refused with 403 bad_jwt with alg none", async () => {
    const { id } = await newAccount();
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const bearer = `${part({ alg: "none", typ: "JWT" })}.${part(userClaims(id))}.`;
    expectRefusal(await call("GET /user", { bearer }), 403, "bad_jwt");
  });

  test("is refused with 403 bad_jwt for an algorithm without a key", async () => {
    const { id } = await newAccount();
    const bearer = await new SignJWT(userClaims(id))
      .setProtectedHeader({ alg: "HS512" })
      .sign(new TextEncoder().encode(target.jwtSecret));
    expectRefusal(await call("GET /user", { bearer }), 403, "bad_jwt");
  });

  test("is refused with 403 bad_jwt if signed by HS256 with the public key as its secret", async () => {
    const { id } = await newAccount();
    const { text } = await call("GET /.well-known/jwks.json");
    const bearer = await new SignJWT(userClaims(id))
      .setProtectedHeader({ alg: "HS256", kid: JSON.parse(text).keys[0].kid })
      .sign(new TextEncoder().encode(JSON.stringify(JSON.parse(text).keys[0])));
    expectRefusal(await call("GET /user", { bearer }), 403, "bad_jwt");
  });

  test("is accepted if signed by HS256 with the shared secret", async () => {
    const { id } = await newAccount();
    expectOk(await call("GET /user", { bearer: await forgeToken(userClaims(id)) }));
  });

  test("is refused with 403 bad_jwt without sub", async () => {
    expectRefusal(await call("GET /user", { bearer: target.serviceKey }), 403, "bad_jwt");
  });

  test("is refused with 400 bad_jwt if sub is not a UUID", async () => {
    const bearer = await forgeToken(userClaims("someone"));
    expectRefusal(await call("GET /user", { bearer }), 400, "bad_jwt");
  });

  test("is refused with 403 user_not_found if the user was deleted", async () => {
    const { account, accessToken } = await newSession();
    expectOk(await admin(`DELETE /admin/users/${account.id}`));
    expectRefusal(await call("GET /user", { bearer: accessToken }), 403, "user_not_found");
  });

  test("is refused with 403 session_not_found if its session has ended", async () => {
    const { accessToken } = await newSession();
    expectOk(await call("POST /logout", { bearer: accessToken }), 204);
    expectRefusal(await call("GET /user", { bearer: accessToken }), 403, "session_not_found");
  });

  test("is refused with 403 user_banned if the user is banned", async () => {
    const { account, accessToken } = await newSession();
    expectOk(await admin(`PUT /admin/users/${account.id}`, { body: { ban_duration: "1h" } }));
    expectRefusal(await call("GET /user", { bearer: accessToken }), 403, "user_banned");
  });

  test("is accepted from any issuer", async () => {
    const { id } = await newAccount();
    expectOk(await call("GET /user", { bearer: await forgeToken({ ...userClaims(id), iss: "https://other.test" }) }));
  });

  test("is refused with 400 validation_failed if its audience differs from the request's", async () => {
    const { accessToken } = await newSession();
    const answer = await call("GET /user", { bearer: accessToken, headers: { "X-JWT-AUD": "other" } });
    expectRefusal(answer, 400, "validation_failed");
  });
});

describe("an administrator's bearer token", () => {
  test("opens /admin with the role service_role", async () => {
    expectOk(await admin("GET /admin/users?per_page=1"));
  });

  test("opens /admin with the role supabase_admin", async () => {
    const bearer = await forgeToken({ role: "supabase_admin", exp: inAnHour() });
    expectOk(await call("GET /admin/users?per_page=1", { bearer }));
  });

  test("is required: 401 no_authorization", async () => {
    expectRefusal(await call("GET /admin/users"), 401, "no_authorization");
  });

  test("cannot be a user's token: 403 not_admin", async () => {
    const { accessToken } = await newSession();
    expectRefusal(await call("GET /admin/users", { bearer: accessToken }), 403, "not_admin");
  });

  test("cannot have the role anon: 403 not_admin", async () => {
    const bearer = await forgeToken({ role: "anon", exp: inAnHour() });
    expectRefusal(await call("POST /admin/generate_link", { bearer, body: {} }), 403, "not_admin");
  });

  test("is refused with 403 session_not_found if it names a session that does not exist", async () => {
    const { account, id, accessToken } = await newSession();
    const claims = { sub: account.id, role: "service_role", session_id: id, exp: inAnHour() };
    const bearer = await forgeToken(claims);
    expectOk(await call("GET /admin/users?per_page=1", { bearer }));
    expectOk(await call("POST /logout", { bearer: accessToken }), 204);
    expectRefusal(await call("GET /admin/users?per_page=1", { bearer }), 403, "session_not_found");
  });
});
