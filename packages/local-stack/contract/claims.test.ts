import { createRemoteJWKSet, jwtVerify } from "jose";
import { describe, expect, test } from "vitest";
import { newAccount, newSession, refresh, sessionOf, signIn } from "./support/accounts.ts";
import { sql } from "./support/database.ts";
import { admin, expectOk } from "./support/http.ts";
import { target } from "./support/target.ts";

describe("an access token", () => {
  test("an access token verifies against the public keys", async () => {
    const { account, accessToken } = await newSession();
    const keys = createRemoteJWKSet(new URL(`${target.url}/.well-known/jwks.json`));
    const { payload } = await jwtVerify(accessToken, keys, { audience: "authenticated", algorithms: ["ES256"] });
    expect(payload.sub).toBe(account.id);
  });

  test("an access token has the standard claims of Supabase Auth and no others", async () => {
    const { account, claims } = await newSession();
    expect(Object.keys(claims).sort()).toEqual(
      [
        "aal",
        "amr",
        "app_metadata",
        "aud",
        "email",
        "exp",
        "iat",
        "is_anonymous",
        "iss",
        "phone",
        "role",
        "session_id",
        "sub",
        "user_metadata",
      ].sort(),
    );
    expect(claims).toMatchObject({
      iss: expect.any(String),
      sub: account.id,
      email: account.email,
      phone: "",
      role: "authenticated",
      aal: "aal1",
      is_anonymous: false,
      app_metadata: { provider: "email", providers: ["email"] },
      user_metadata: { email_verified: true },
    });
  });

  test("an access token's audience is a string and not a list", async () => {
    expect((await newSession()).claims.aud).toBe("authenticated");
  });

  test("an access token expires after the expires_in of its response", async () => {
    const { claims } = await newSession();
    expect(claims.exp - claims.iat).toBe(3_600);
  });

  test("an access token lists the sign-in methods used, with times in whole seconds", async () => {
    const { claims } = await newSession();
    expect(claims.amr).toEqual([{ method: "password", timestamp: expect.any(Number) }]);
    expect(Number.isInteger(claims.amr[0].timestamp)).toBe(true);
    expect(Math.abs(claims.amr[0].timestamp - claims.iat)).toBeLessThanOrEqual(2);
  });

  test("an access token contains app_metadata as stored in the database", async () => {
    const { claims } = await newSession({ app_metadata: { plan: "team", limits: { a: 1 } } });
    expect(claims.app_metadata).toMatchObject({ plan: "team", limits: { a: 1 }, provider: "email" });
  });
});

describe("a refreshed access token", () => {
  test("a refreshed access token keeps the session, its assurance level, and the sign-in methods with their times", async () => {
    const { id, refreshToken } = await newSession();
    await sql("update auth.mfa_amr_claims set updated_at = updated_at - interval '1 hour' where session_id = $1", [id]);
    const first = sessionOf(expectOk(await refresh(refreshToken)));
    const second = sessionOf(expectOk(await refresh(first.refreshToken)));
    expect(second.id).toBe(id);
    expect(second.claims.aal).toBe("aal1");
    expect(second.claims.amr).toEqual(first.claims.amr);
    expect(first.claims.iat - first.claims.amr[0].timestamp).toBeGreaterThan(3_500);
  });

  test("a refreshed access token contains the current metadata", async () => {
    const { account, refreshToken } = await newSession();
    const body = { app_metadata: { plan: "team" }, user_metadata: { name: "N" }, role: "staff" };
    expectOk(await admin(`PUT /admin/users/${account.id}`, { body }));
    const { claims, user } = sessionOf(expectOk(await refresh(refreshToken)));
    expect(claims).toMatchObject({ app_metadata: { plan: "team" }, user_metadata: { name: "N" }, role: "staff" });
    expect(user.app_metadata.plan).toBe("team");
  });

  test("a refresh updates the session's refresh time but not its creation time", async () => {
    const account = await newAccount();
    const { id, refreshToken } = await signIn(account);
    const before = await sql("select created_at, refreshed_at from auth.sessions where id = $1", [id]);
    expect(before[0]?.refreshed_at).toBeNull();
    expectOk(await refresh(refreshToken));
    const [row] = await sql(
      "select created_at, abs(extract(epoch from now() at time zone 'UTC' - refreshed_at)) < 30 as fresh from auth.sessions where id = $1",
      [id],
    );
    expect(row).toEqual({ created_at: before[0]?.created_at, fresh: true });
  });
});
