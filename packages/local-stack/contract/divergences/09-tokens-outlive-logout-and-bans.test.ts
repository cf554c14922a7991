import { createHash, randomBytes } from "node:crypto";
import { createRemoteJWKSet, jwtVerify } from "jose";
import { expect, test } from "vitest";
import { newAccount, newSession, sessionOf } from "../support/accounts.ts";
import { admin, call, expectOk, expectRefusal } from "../support/http.ts";
import { nextMail } from "../support/mail.ts";
import { target } from "../support/target.ts";

const verifyLocally = async (token: string) =>
  (await jwtVerify(token, createRemoteJWKSet(new URL(`${target.url}/.well-known/jwks.json`)))).payload;

test("an access token still verifies against the public keys after a sign-out or ban, and only the server refuses it", async () => {
  const { account, accessToken } = await newSession();
  expectOk(await admin(`PUT /admin/users/${account.id}`, { body: { ban_duration: "1h" } }));
  expect((await verifyLocally(accessToken)).sub).toBe(account.id);
  expectRefusal(await call("GET /user", { bearer: accessToken }), 403, "user_banned");
  const other = await newSession();
  expectOk(await call("POST /logout", { bearer: other.accessToken }), 204);
  expect((await verifyLocally(other.accessToken)).sub).toBe(other.account.id);
  expectRefusal(await call("GET /user", { bearer: other.accessToken }), 403, "session_not_found");
});

test("a code exchange ignores a ban, but the next refresh is refused", async () => {
  const { id, email } = await newAccount();
  const code_verifier = randomBytes(42).toString("base64url");
  const code_challenge = createHash("sha256").update(code_verifier).digest("base64url");
  expectOk(await call("POST /recover", { body: { email, code_challenge, code_challenge_method: "s256" } }));
  const { tokenHash } = await nextMail(email);
  const { location } = await call(`GET /verify?type=recovery&token=${tokenHash}`);
  expectOk(await admin(`PUT /admin/users/${id}`, { body: { ban_duration: "1h" } }));
  const body = { auth_code: new URL(location).searchParams.get("code"), code_verifier };
  const session = sessionOf(expectOk(await call("POST /token?grant_type=pkce", { body })));
  const refreshed = { body: { refresh_token: session.refreshToken } };
  expectRefusal(await call("POST /token?grant_type=refresh_token", refreshed), 400, "user_banned");
});
