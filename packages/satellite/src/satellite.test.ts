import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { accountMenu } from "./account-menu.ts";
import { CrossOriginError, type SignInRequiredError } from "./errors.ts";
import { createSatellite as createForReactRouter } from "./react-router.ts";
import { createSatellite } from "./satellite.ts";

const origin = "http://localhost:4000";
const event = "http://schemas.openid.net/event/backchannel-logout";
const keys = await generateKeyPair("RS256");
const otherKeys = await generateKeyPair("RS256");
const jwk = { ...(await exportJWK(keys.publicKey)), kid: "k1", alg: "RS256", use: "sig" };

/** State of a simulated platform on loopback, with one session for each token. */
const platform = { url: "", asked: [] as string[], ended: new Set<string>(), status: 200, exp: 0 };
let server: Server;

beforeAll(async () => {
  server = createServer(async (request, response) => {
    platform.asked.push(`${request.method} ${request.url}`);
    const [status, body] = await answer(request);
    response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  platform.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => void server.close());
beforeEach(() => {
  Object.assign(platform, {
    asked: [],
    ended: new Set(),
    status: 200,
    exp: Math.ceil(Date.now() / 1000) + 2 * 60 * 60,
  });
});

async function answer(request: IncomingMessage): Promise<[number, unknown]> {
  if (platform.status !== 200) return [platform.status, {}];
  if (request.url === "/.well-known/jwks.json") return [200, { keys: [jwk] }];
  let text = "";
  for await (const chunk of request) text += chunk;
  const { token = "" } = text ? (JSON.parse(text) as { token?: string }) : {};
  if (request.url?.endsWith("/revoke")) platform.ended.add(token);
  if (platform.ended.has(token)) return [200, { active: false }];
  if (request.url?.endsWith("/introspect"))
    return [200, { active: true, sub: "ada", exp: platform.exp, sid: `sid-${token}`, name: "Ada <3", email: null }];
  return [200, { token: `${token}-next`, expiresAt: "2030-01-01T00:00:00.000Z" }];
}

function openSatellite(options: Partial<Parameters<typeof createSatellite>[0]> = {}) {
  const env = { APP_NAME: "memo", APP_SECRET: "s".repeat(32), BASE_URL: origin, CENTRAL_URL: platform.url };
  return createSatellite({ env, log: () => {}, ...options });
}
const ask = (path: string, { cookie = "platform_app_session=a", ...init }: RequestInit & { cookie?: string } = {}) =>
  new Request(`${origin}${path}`, { ...init, headers: { cookie, ...(init.headers as Record<string, string>) } });

describe("getting the user of a request", () => {
  test("fetches a request's user from the platform once per 60 seconds, and again after a sign-out", async () => {
    const satellite = openSatellite();
    expect(await satellite.getUser(ask("/"))).toEqual({ id: "ada", name: "Ada <3", email: null });
    await satellite.getUser(ask("/"));
    expect(platform.asked).toEqual(["POST /api/v1/auth/app-sessions/introspect"]);
    const out = await satellite.handle(ask("/sign-out", { method: "POST", headers: { origin } }));
    expect([out?.status, out?.headers.getSetCookie()]).toEqual([
      303,
      ["platform_app_session=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax"],
    ]);
    expect(await satellite.getUser(ask("/"))).toBeNull();
  });

  test.each([
    ["of 4,096 characters", `platform_app_session=${"x".repeat(4_096)}`, true],
    ["of 4,097 characters", `platform_app_session=${"x".repeat(4_097)}`, false],

    ["with characters outside ASCII", "platform_app_session=\u00e9", false],
    ["with a space", "platform_app_session=a b", false],
    [
      "next to a central session of 5,000 characters",
      `platform_app_session=a; platform_central_session=${"x".repeat(5_000)}`,
      false,
    ],
  ])("a session cookie %s is cleared if it can't be the platform's", async (_, cookie, isKept) => {
    const satellite = openSatellite();
    // The platform answers such a token with 400, which says nothing about the session.
    platform.status = isKept ? 200 : 400;
    const request = ask("/", { cookie });
    expect((await satellite.getUser(request)) !== null).toBe(isKept);
    expect(platform.asked).toHaveLength(isKept ? 1 : 0);
    const cleared = satellite.commit(request, new Response()).headers.getSetCookie();
    expect(cleared.some((line) => line.startsWith("platform_app_session=; Max-Age=0"))).toBe(!isKept);
  });

  test.each([
    [3_599, 1],
    [3_660, 0],
  ])("a session with %i seconds left is refreshed %i times by 10 concurrent requests", async (left, refreshes) => {
    const satellite = openSatellite();
    platform.exp = Math.floor(Date.now() / 1000) + left;
    const requests = Array.from({ length: 10 }, () => ask("/"));
    await Promise.all(requests.map((request) => satellite.getUser(request)));
    expect(platform.asked.filter((call) => call.endsWith("/refresh"))).toHaveLength(refreshes);
    const cookies = requests.map((request) => satellite.commit(request, new Response()).headers.getSetCookie());
    const kept = refreshes === 0 ? [] : [expect.stringMatching(/^platform_app_session=a-next; /)];
    for (const set of cookies) expect(set).toEqual(kept);
  });

  test("returns no user during an outage of the platform, and keeps the cookies", async () => {
    const satellite = openSatellite();
    platform.status = 502;
    const request = ask("/");
    const error = await satellite.getUser(request).catch((reason: unknown) => reason);
    const response = satellite.errorResponse(error, request);
    expect(error).toMatchObject({ code: "platform_unavailable", status: 503 });
    expect([response?.status, response?.headers.get("retry-after")]).toEqual([503, "5"]);
    expect(response?.headers.getSetCookie()).toEqual([]);
  });

  test("returns no user for a state-changing request from another origin, even a sibling host", async () => {
    const satellite = openSatellite();
    const foreign: Record<string, string>[] = [{ origin: "https://evil.example" }, { "sec-fetch-site": "same-site" }];
    for (const headers of foreign) {
      const request = ask("/w/1", { method: "POST", headers });
      expect(await satellite.getUser(request)).toBeNull();
      await expect(satellite.requireUser(request)).rejects.toThrow(CrossOriginError);
      await expect(satellite.central(request).workspaces.get("1")).rejects.toThrow(CrossOriginError);
      expect((await satellite.handle(ask("/sign-out", { method: "POST", headers })))?.status).toBe(403);
    }
    expect(platform.asked).toEqual([]);
  });

  test("sends a signed-out visitor to the platform's sign-in, which leads back to the requested page", async () => {
    const request = ask("/w/1?x=2", { cookie: "" });
    const error = await openSatellite()
      .requireUser(request)
      .catch((reason: unknown) => reason);
    const location = new URL((error as SignInRequiredError).response.headers.get("location") ?? "");
    expect(`${location.origin}${location.pathname}`).toBe(`${platform.url}/login`);
    expect(location.searchParams.get("returnUrl")).toBe(`${origin}/w/1?x=2`);
  });
});

describe("satellite endpoints", () => {
  test("leaves paths other than its endpoints to the app", async () => {
    for (const path of ["/", "/sign-in/x", "/constructor", "/__proto__"]) {
      expect(await openSatellite().handle(ask(path))).toBeNull();
    }
  });

  test("answers 405 to an unsupported method, and lists the endpoint's allowed methods", async () => {
    const response = await openSatellite().handle(ask("/sign-out"));
    expect([response?.status, response?.headers.get("allow")]).toEqual([405, "POST"]);
  });

  test("ignores slashes after an endpoint's path", async () => {
    for (const path of ["/sign-out/", "/sign-out//"]) {
      expect((await openSatellite().handle(ask(path)))?.status).toBe(405);
    }
    const signIn = await openSatellite().handle(ask("/sign-in?returnTo=/sign-out/"));
    expect(decodeURIComponent(signIn?.headers.get("location") ?? "")).not.toContain("/sign-out/");
  });

  test.each([
    [512, 1],
    [513, 0],
  ])("number of requests to the platform for a sign-in token of %i characters: %i", async (length, asked) => {
    const satellite = openSatellite();
    const token = "t".repeat(length);
    await satellite.handle(ask(`/verify-token?token=${token}`));
    expect(platform.asked).toHaveLength(asked);
    const body = new URLSearchParams({ token });
    const posted = await satellite.handle(ask("/verify-token", { method: "POST", headers: { origin }, body }));
    expect(platform.asked).toHaveLength(2 * asked);
    if (asked === 0) expect([posted?.status, await posted?.text()]).toEqual([401, expect.stringContaining("expired")]);
  });

  test.each([
    [64 * 1024, 400],
    [64 * 1024 + 1, 413],
  ])("answers a request body of %i bytes with status %i", async (length, status) => {
    const request = ask("/api/auth/verify-app-token", {
      method: "POST",
      headers: { origin, "content-type": "application/json" },
      body: "x".repeat(length),
    });
    expect((await openSatellite().handle(request))?.status).toBe(status);
  });

  test("the user endpoint returns the signed-in person, and another endpoint serves the account menu's script", async () => {
    const satellite = openSatellite();
    const user = await satellite.handle(ask("/api/auth/user"));
    expect(await user?.json()).toEqual({ user: { id: "ada", name: "Ada <3", email: null } });
    const script = await satellite.handle(ask("/account-menu.js"));
    expect(script?.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
    expect(await script?.text()).toContain('customElements.define("account-menu"');
  });

  test("renders the account menu with links and forms, and escapes names", () => {
    const html = accountMenu({ id: "ada", name: "Ada <3", email: "ada@example.com" });
    expect(html).toContain("<summary>Ada &lt;3</summary>");
    expect(html).toContain('<a href="/sign-in">Switch account</a>');
    expect(html).toContain('<form method="post" action="/sign-out">');
    expect(accountMenu(null)).toContain('<a href="/sign-in">Sign in</a>');
  });
});

describe("back-channel logout", () => {
  interface TokenOptions {
    claims?: Record<string, unknown>;
    typ?: string;
    key?: CryptoKey;
    issuer?: string;
    audience?: string;
    expiresAt?: number;
  }
  const now = () => Math.floor(Date.now() / 1000);
  function logoutToken({ claims, typ = "logout+jwt", key = keys.privateKey, ...options }: TokenOptions = {}) {
    return new SignJWT({ sid: "sid-a", events: { [event]: {} }, jti: crypto.randomUUID(), ...claims })
      .setProtectedHeader({ alg: "RS256", kid: "k1", typ })
      .setIssuer(options.issuer ?? platform.url)
      .setAudience(options.audience ?? "memo")
      .setIssuedAt()
      .setExpirationTime(options.expiresAt ?? now() + 120)
      .sign(key);
  }
  const post = (satellite: ReturnType<typeof createSatellite>, token: string) =>
    satellite.handle(
      new Request(`${origin}/api/auth/backchannel-logout`, {
        method: "POST",
        body: new URLSearchParams({ logout_token: token }),
      }),
    );

  test("a logout token immediately ends the cached session with the token's sid, and no other session", async () => {
    const satellite = openSatellite();
    const other = () => ask("/", { cookie: "platform_app_session=b" });
    await satellite.getUser(ask("/"));
    await satellite.getUser(other());
    platform.ended.add("a").add("b");
    expect((await post(satellite, await logoutToken()))?.status).toBe(200);
    expect(await satellite.getUser(ask("/"))).toBeNull();
    expect(await satellite.getUser(other())).not.toBeNull();
  });

  test("accepts a logout token only once, even from concurrent callers", async () => {
    const satellite = openSatellite();
    const token = await logoutToken();
    const answers = await Promise.all(Array.from({ length: 10 }, () => post(satellite, token)));
    expect(answers.map((response) => response?.status).sort()).toEqual([200, ...Array(9).fill(400)]);
  });

  test.each<[string, TokenOptions]>([
    ["from another issuer", { issuer: "https://evil.example" }],
    ["for another app", { audience: "notes" }],
    ["that has expired", { expiresAt: 1_000 }],
    ["signed with another key", { key: otherKeys.privateKey }],
    ["that is an ID token", { typ: "JWT" }],
    ["with a nonce", { claims: { nonce: "n" } }],
    ["without the logout event", { claims: { events: {} } }],
    ["with a logout event that is not an object", { claims: { events: { [event]: true } } }],
    ["without sid or sub", { claims: { sid: undefined } }],
    ["without jti", { claims: { jti: undefined } }],
  ])("answers 400 to a logout token %s", async (_, options) => {
    const response = await post(openSatellite(), await logoutToken(options));
    expect([response?.status, await response?.json()]).toMatchObject([400, { error: "invalid_request" }]);
  });

  test("rejects an unsigned logout token", async () => {
    const [, payload] = (await logoutToken()).split(".");
    const header = btoa(JSON.stringify({ alg: "none", typ: "logout+jwt" })).replace(/=+$/, "");
    expect((await post(openSatellite(), `${header}.${payload}.`))?.status).toBe(400);
  });

  test("answers a back-channel logout with 503 while the keys are unavailable, so that the platform retries", async () => {
    const token = await logoutToken();
    platform.status = 503;
    expect((await post(openSatellite(), token))?.status).toBe(503);
  });
});

test("React Router loaders use the session that the middleware opened, and the middleware sets the session's cookies", async () => {
  const env = { APP_NAME: "memo", APP_SECRET: "s".repeat(32), BASE_URL: origin, CENTRAL_URL: platform.url };
  const satellite = createForReactRouter({ env });
  platform.exp = Math.floor(Date.now() / 1000) + 60;
  const context = new Map<unknown, unknown>();
  const request = ask("/");
  const response = await satellite.middleware({ request, context }, async () => {
    const user = await satellite.getUser({ request: new Request(request), context });
    return new Response(user?.id);
  });
  expect([await response.text(), response.headers.getSetCookie()]).toEqual([
    "ada",
    [expect.stringMatching(/^platform_app_session=a-next; /)],
  ]);
});
