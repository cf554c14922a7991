import { decodeProtectedHeader } from "jose";
import { describe, expect, test } from "vitest";
import { newSession } from "./support/accounts.ts";
import { admin, call, expectOk } from "./support/http.ts";

describe("GET /health", () => {
  test("GET /health names the service", async () => {
    const body = expectOk(await call("GET /health"));
    expect(body).toMatchObject({ name: "GoTrue", version: expect.any(String), description: expect.any(String) });
  });
});

describe("GET /settings", () => {
  test("GET /settings shows which sign-in methods are enabled, with each provider by name", async () => {
    const body = expectOk(await call("GET /settings"));
    expect(body.external).toMatchObject({ email: true, discord: false, spotify: false, keycloak: true });
    expect(Object.values(body.external).every((value) => typeof value === "boolean")).toBe(true);
  });

  test("GET /settings shows the sign-up settings and whether passkeys are enabled", async () => {
    const body = expectOk(await call("GET /settings"));
    expect(body).toMatchObject({
      disable_signup: false,
      mailer_autoconfirm: false,
      phone_autoconfirm: false,
      sms_provider: "",
      saml_enabled: false,
      passkeys_enabled: true,
    });
    expect(body).toHaveProperty("saml_private_key_next_configured");
  });
});

describe("GET /.well-known/jwks.json", () => {
  test("/.well-known/jwks.json contains only public keys for verification, cacheable for ten minutes", async () => {
    const answer = await call("GET /.well-known/jwks.json");
    const { keys } = expectOk(answer);
    expect(keys).toHaveLength(1);
    expect(keys[0]).toMatchObject({ kty: "EC", crv: "P-256", alg: "ES256", use: "sig", key_ops: ["verify"] });
    expect(keys[0]).not.toHaveProperty("d");
    expect(answer.headers.get("cache-control")).toBe("public, max-age=600");
  });

  test("/.well-known/jwks.json never contains a shared secret", async () => {
    const answer = await call("GET /.well-known/jwks.json");
    expect(answer.text).not.toContain('"oct"');
    expect(answer.text).not.toContain('"k":');
  });

  test("/.well-known/jwks.json is readable by scripts of any origin", async () => {
    const answer = await call("GET /.well-known/jwks.json", { headers: { Origin: "http://localhost:3000" } });
    expect(answer.headers.get("access-control-allow-origin")).toMatch(/^(\*|http:\/\/localhost:3000)$/);
    expect(answer.headers.get("access-control-expose-headers")?.toLowerCase()).toContain("x-supabase-api-version");
  });

  test("/.well-known/jwks.json contains the key that a user's token names", async () => {
    const { keys } = expectOk(await call("GET /.well-known/jwks.json"));
    const { accessToken } = await newSession();
    expect(decodeProtectedHeader(accessToken)).toMatchObject({ alg: "ES256", kid: keys[0].kid });
  });
});

describe("unknown paths", () => {
  test("an unknown path gets a plain-text 404", async () => {
    const answer = await call("GET /no-such-route");
    expect(answer.status).toBe(404);
    expect(answer.headers.get("content-type")).toMatch(/^text\/plain/);
  });

  test("an unknown path below /admin gets a 404", async () => {
    expect((await admin("GET /admin/no-such-route")).status).toBe(404);
  });
});

describe("other methods of a known path", () => {
  test.each([
    "POST /health",
    "GET /signup",
    "PUT /token",
    "DELETE /verify",
    "HEAD /health",
    "HEAD /.well-known/jwks.json",
    "POST /.well-known/jwks.json",
  ])("a known path with an unsupported method gets 405: %s", async (route) => {
    const answer = await call(route);
    expect(answer.status).toBe(405);
    expect(answer.headers.get("allow")).toMatch(/GET|POST/);
  });
});
