import { describe, expect, test } from "vitest";
import { readStack } from "../../scripts/test/stack.ts";

const { base, ai } = readStack();

describe("OpenID provider metadata", () => {
  test.each(["openid-configuration", "oauth-authorization-server"])(
    "the %s document lists only what is supported",
    async (name) => {
      const response = await fetch(`${base}/.well-known/${name}`, { headers: { origin: "https://other.example" } });
      expect(response.headers.get("access-control-allow-origin")).toBe("*");
      expect(response.headers.get("cache-control")).toBe("public, max-age=300");
      expect(response.headers.get("set-cookie")).toBeNull();
      expect(await response.json()).toMatchObject({
        issuer: base,
        jwks_uri: `${base}/.well-known/jwks.json`,
        response_types_supported: ["code"],
        response_modes_supported: ["query"],
        code_challenge_methods_supported: ["S256"],
        id_token_signing_alg_values_supported: ["RS256"],
        authorization_response_iss_parameter_supported: true,
        backchannel_logout_supported: true,
        request_parameter_supported: false,
        claims_parameter_supported: true,
        // RFC 9126 section 5.
        pushed_authorization_request_endpoint: `${base}/oauth/par`,
        client_id_metadata_document_supported: true,
        registration_endpoint: `${base}/oauth/register`,
        request_uri_parameter_supported: false,
      });
    },
  );

  test("the key set contains only public RSA keys", async () => {
    const response = await fetch(`${base}/.well-known/jwks.json`);
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    const { keys } = (await response.json()) as { keys: object[] };
    for (const key of keys) expect(Object.keys(key).toSorted()).toEqual(["alg", "e", "kid", "kty", "n", "use"]);
    expect(keys.length).toBeGreaterThan(0);
  });

  test("a preflight of a metadata document is answered without a session, and other methods are refused", async () => {
    const preflight = await fetch(`${base}/.well-known/jwks.json`, { method: "OPTIONS" });
    expect([preflight.status, preflight.headers.get("access-control-allow-origin")]).toEqual([204, "*"]);
    expect((await fetch(`${base}/.well-known/jwks.json`, { method: "POST" })).status).toBe(405);
  });

  test.each([
    "/.well-known/openid-configuration",
    "/.well-known/oauth-authorization-server",
    "/.well-known/jwks.json",
    "/docs/api/platform.json",
    "/docs/api/gateway.json",
  ])("a client that has %s is answered with 304, without cookies, for any visitor", async (path) => {
    const headers = { cookie: "sb-127-auth-token=garbage", "x-request-id": "mine-1" };
    const response = await fetch(`${base}${path}`, { headers });
    const etag = response.headers.get("etag") ?? "";
    expect([response.status, response.headers.get("content-type"), typeof (await response.json())]).toEqual([
      ...[200, "application/json", "object"],
    ]);
    const again = await fetch(`${base}${path}`, { headers: { ...headers, "if-none-match": etag } });
    expect([again.status, again.headers.get("etag"), await again.text()]).toEqual([304, etag, ""]);
    const head = await fetch(`${base}${path}`, { method: "HEAD", headers });
    expect([head.status, head.headers.get("etag"), await head.text()]).toEqual([200, etag, ""]);
    for (const answer of [response, again, head]) {
      expect(answer.headers.get("cache-control")).toBe("public, max-age=300");
      expect(answer.headers.get("x-request-id")).toBe("mine-1");
      expect(answer.headers.get("set-cookie")).toBeNull();
      expect(answer.headers.get("access-control-allow-origin")).toBe(path.startsWith("/docs") ? null : "*");
    }
  });

  test.each(["/docs/api/platform.json", "/docs/api/GATEWAY.JSON"])("%s names this area's server", async (path) => {
    const { servers } = (await (await fetch(`${base}${path}`)).json()) as { servers: unknown };
    expect(servers).toEqual([{ url: path.includes("platform") ? base : ai }]);
  });
});
