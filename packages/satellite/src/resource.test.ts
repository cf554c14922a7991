import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { SatelliteConfigError } from "./errors.ts";
import { createResource, type ResourceOptions } from "./resource.ts";

const resourceUrl = "https://tools.example.com/mcp";
const { privateKey, publicKey } = await generateKeyPair("RS256");
const sub = "person";
/** The platform's answers, which a test can change. */
const platform = { status: 200, state: {} as Record<string, unknown>, introspections: [] as string[] };
let server: Server;
let platformUrl: string;

beforeAll(async () => {
  const jwk = { ...(await exportJWK(publicKey)), kid: "1", alg: "RS256", use: "sig" };
  server = createServer(async (request, response) => {
    if (request.url === "/.well-known/jwks.json") return response.end(JSON.stringify({ keys: [jwk] }));
    let body = "";
    for await (const piece of request) body += piece;
    platform.introspections.push(`${request.headers.authorization} ${body}`);
    response.writeHead(platform.status).end(JSON.stringify(platform.state));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  platformUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());
beforeEach(() => {
  const exp = Math.floor(Date.now() / 1000) + 600;
  platform.status = 200;
  platform.state = { active: true, sub, exp, sid: "s", client_id: "c", scope: "openid profile", name: "Ada" };
  platform.introspections = [];
});

const open = (options: Partial<ResourceOptions> = {}) =>
  createResource({
    appName: "tools",
    appSecret: "s".repeat(43),
    resourceUrl,
    platformUrl,
    env: {},
    log: () => undefined,
    ...options,
  });

function sign({
  typ = "at+jwt",
  key = privateKey,
  ...claims
}: Record<string, unknown> & { key?: typeof privateKey } = {}) {
  const exp = Math.floor(Date.now() / 1000) + 600;
  return new SignJWT({ iss: platformUrl, aud: resourceUrl, sub, exp, client_id: "c", jti: "j", ...claims })
    .setProtectedHeader({ alg: "RS256", typ: String(typ), kid: "1" })
    .sign(key);
}
const call = (token: string) => new Request(resourceUrl, { headers: { authorization: `Bearer ${token}` } });

describe("the metadata of a resource", () => {
  test.each([
    ["https://tools.example.com/mcp", "https://tools.example.com/.well-known/oauth-protected-resource/mcp"],
    ["https://tools.example.com", "https://tools.example.com/.well-known/oauth-protected-resource"],
  ])("the metadata of %s is at %s and may be read from any origin (RFC 9728 section 3.1)", async (url, address) => {
    const resource = open({ resourceUrl: url });
    expect(resource.metadataUrl).toBe(address);
    const response = resource.handle(new Request(address));
    expect(response?.headers.get("access-control-allow-origin")).toBe("*");
    expect(await response?.json()).toEqual({
      resource: url,
      authorization_servers: [platformUrl],
      scopes_supported: ["openid"],
      bearer_methods_supported: ["header"],
    });
    expect(resource.handle(new Request(address, { method: "POST" }))?.status).toBe(405);
    expect(resource.handle(new Request("https://tools.example.com/other"))).toBeNull();
  });

  test.each([
    "",
    "tools",
    "https://tools.example.com/",
    "https://tools.example.com/mcp?a",
    "https://TOOLS.example.com/mcp",
  ])("refuses to start with the resource URL %j", (url) =>
    expect(() => open({ resourceUrl: url })).toThrow(SatelliteConfigError),
  );
});

describe("the caller of a resource", () => {
  test("is the person of a token that the platform says is active, asked with the app's own credentials", async () => {
    const token = await sign();
    expect(await open().authenticate(call(token))).toMatchObject({
      id: sub,
      clientId: "c",
      scopes: ["openid", "profile"],
      sid: "s",
      name: "Ada",
      email: null,
    });
    expect(platform.introspections).toEqual([`Basic ${btoa(`tools:${"s".repeat(43)}`)} token=${token}`]);
  });

  test("a request without a token gets a challenge without an error code (RFC 6750 section 3.1)", async () => {
    const response = (await open().authenticate(new Request(resourceUrl))) as Response;
    expect([response.status, response.headers.get("www-authenticate")]).toEqual([
      401,
      'Bearer resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp", scope="openid"',
    ]);
  });

  test.each([
    ["of another audience", () => sign({ aud: "https://other.example.com/mcp" })],
    ["of several audiences", () => sign({ aud: [resourceUrl, "https://other.example.com/mcp"] })],
    ["of another issuer", () => sign({ iss: "https://evil.example.com" })],
    ["that has expired", () => sign({ exp: Math.floor(Date.now() / 1000) - 1 })],
    ["without an expiry", () => sign({ exp: undefined })],
    ["that is an ID token", () => sign({ typ: "JWT" })],
    ["that is a logout token", () => sign({ typ: "logout+jwt" })],
    ["of another key", async () => sign({ key: (await generateKeyPair("RS256")).privateKey })],
    ["without a signature", async () => `${(await sign()).split(".").slice(0, 2).join(".")}.`],
    ["that is opaque", async () => `gho_${"a".repeat(43)}`],
    ["that is too long", () => sign({ padding: "x".repeat(4_096) })],
  ])("a token %s is refused without asking the platform", async (_, token) => {
    const response = (await open().authenticate(call(await token()))) as Response;
    expect([response.status, platform.introspections]).toEqual([401, []]);
    expect(response.headers.get("www-authenticate")).toContain('error="invalid_token"');
  });

  test.each([
    ["an ended connection", { active: false }, 200, 401],
    ["another person", { active: true, sub: "other", exp: 9e9, sid: "s", scope: "openid" }, 200, 401],
    ["a missing scope", { active: true, sub, exp: 9e9, sid: "s", scope: "profile" }, 200, 403],
    ["an outage", {}, 503, 503],
    ["rejected credentials", {}, 401, 503],
    ["an answer without a person", { active: true }, 200, 503],
  ])("an introspection with %s is refused", async (_, state, status, expected) => {
    Object.assign(platform, { state, status });
    expect(await open().authenticate(call(await sign()))).toMatchObject({ status: expected });
  });

  test.each([
    [undefined, 2],
    [60, 1],
  ])("with introspectionCacheSeconds %j, two calls ask the platform %i times", async (seconds, times) => {
    const resource = open(seconds === undefined ? {} : { introspectionCacheSeconds: seconds });
    const token = await sign();
    for (let count = 0; count < 2; count += 1) await resource.authenticate(call(token));
    expect(platform.introspections).toHaveLength(times);
  });

  test.each([-1, 61])("introspectionCacheSeconds %i is refused", (introspectionCacheSeconds) => {
    expect(() => open({ introspectionCacheSeconds })).toThrow(SatelliteConfigError);
  });
});
