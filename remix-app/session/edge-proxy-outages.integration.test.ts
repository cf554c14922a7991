import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createClaimsVerifier } from "#shared/claims.ts";
import { type IdentityBackend, startIdentityBackend, type TokenOptions } from "../../scripts/test/identity-backend.ts";
import { type Env, parseEnv } from "../config/env.server.ts";
import { type CookieJar, createCookieJar } from "../http/cookies.ts";
import type { StoredSession } from "./cookies.ts";
import { createEdgeProxy } from "./edge-proxy.ts";
import { createSessionRefresher } from "./refresh.ts";
import { openRequestSession, type SessionServices } from "./request-session.ts";
import { fetchDeviceSessionState } from "./session-state.ts";
import { openVault } from "./vault.ts";

const refreshCall = "POST /auth/v1/token";

let backend: IdentityBackend;
let env: Env;
let services: SessionServices;
let clockOffsetMs = 0;

beforeEach(async () => {
  backend = await startIdentityBackend();
  clockOffsetMs = 0;
  const now = () => Date.now() + clockOffsetMs;
  const supabaseUrl = backend.url;
  env = parseEnv(backend.env);
  const { SUPABASE_PUBLISHABLE_KEY: publishableKey } = backend.env;
  const vault = await openVault(env);
  const refreshSession = createSessionRefresher({ supabaseUrl, now });
  const proxy = createEdgeProxy({
    verifyClaims: createClaimsVerifier({ supabaseUrl, now }),
    refreshSession,
    vault,
    fetchState: (token, options) => fetchDeviceSessionState(token, { supabaseUrl, publishableKey, ...options }),
    now,
  });
  services = { proxy, refreshSession, vault };
});
afterEach(() => backend.close());

/** Creates the cookie jar for a request from a browser with this session. */
const jarWith = async (session: StoredSession) => createCookieJar(await backend.cookieOf(session));

function open(jar: CookieJar, authorization: string | null) {
  return openRequestSession({ env, services, jar, origin: env.BASE_URL, authorization, clientAddress: "203.0.113.7" });
}

async function withJar(jar: CookieJar) {
  const { auth, stored } = await open(jar, null);
  return { auth, jar, setCookies: jar.setCookieHeaders(), kept: stored };
}

const withCookie = async (session: StoredSession) => withJar(await jarWith(session));

async function withBearer(token: string, jar = createCookieJar(null)) {
  return open(jar, `Bearer ${token}`);
}

describe("requests with a live session", () => {
  test("a live session is verified without a call to the identity backend once the backend's signing keys are cached", async () => {
    await withCookie(await backend.session());
    backend.calls.length = 0;
    const { auth, setCookies } = await withCookie(await backend.session());
    expect(auth).toMatchObject({ status: "authenticated", via: "cookie", claims: { sub: backend.person.id } });
    expect(setCookies).toEqual([]);
    expect(backend.calls).toEqual(["POST /rest/v1/rpc/device_session_state"]);
  });

  test("a live session is refreshed in its last 90 s, but not earlier", async () => {
    expect((await withCookie(await backend.session({ expiresIn: 92 }))).setCookies).toEqual([]);
    const { auth, kept, jar } = await withCookie(await backend.session({ expiresIn: 90 }));
    expect(auth.status).toBe("authenticated");
    expect(kept?.refresh_token).toMatch(/^refresh-1 /);
    expect(backend.count(refreshCall)).toBe(1);
    expect(backend.headers.get("/auth/v1/token")).toMatchObject({
      apikey: backend.env.SUPABASE_SECRET_KEY,
      "sb-forwarded-for": "203.0.113.7",
    });
    const cookie = Buffer.from((jar.get("sb-127-auth-token") ?? "").replace("base64-", ""), "base64url").toString();
    expect(JSON.parse(cookie)).toEqual(kept);
  });
});

describe("an expired session", () => {
  test("a late request with an expired session gets the refreshed session from the vault, without another refresh", async () => {
    const cookie = await backend.cookieOf(await backend.session({ expiresIn: -10 }));
    await withJar(createCookieJar(cookie));
    clockOffsetMs = 31_000;
    const { auth, kept } = await withJar(createCookieJar(cookie));
    expect([auth.status, backend.count(refreshCall)]).toEqual(["authenticated", 1]);
    expect(kept?.refresh_token).toMatch(/^refresh-1 /);
  });

  test.each(["refresh_token_not_found", "refresh_token_already_used", "session_expired", "user_banned"])(
    "an expired session that the backend refuses to refresh (%s) is signed out",
    async (code) => {
      backend.refresh = { status: 400, code };
      const { auth, kept, setCookies } = await withCookie(await backend.session({ expiresIn: -10 }));
      expect(auth.status).toBe("anonymous");
      expect(kept).toBeNull();
      expect(setCookies.join()).toContain("Max-Age=0");
    },
  );

  test.each([
    ["an outage", "down" as const],
    ["a rate limit", { status: 429, code: "over_request_rate_limit" }],
    ["contention", { status: 409, code: "conflict" }],
    ["an API key that the gateway does not know", { status: 401, code: "invalid_api_key" }],
  ])("an expired session survives %s: it is reported as unavailable, and the cookie stays", async (_, refresh) => {
    backend.refresh = refresh;
    const session = await backend.session({ expiresIn: -10 });
    const { auth, setCookies } = await withCookie(session);
    expect(auth.status).toBe("unavailable");
    expect(setCookies).toEqual([]);
    backend.refresh = "ok";
    expect((await withCookie(session)).auth.status).toBe("authenticated");
  });

  test("a session that cannot be refreshed works until its expiry", async () => {
    backend.refresh = "down";
    const { auth, setCookies } = await withCookie(await backend.session({ expiresIn: 60 }));
    expect(auth.status).toBe("authenticated");
    expect(setCookies).toEqual([]);
  });
});

describe("sessions while the backend's keys are unavailable", () => {
  test.each(["down", "hang", "empty"] as const)(
    "fetches the user from the identity backend if the backend's keys are unavailable (%s)",
    async (jwks) => {
      backend.jwks = jwks;
      const { auth } = await withCookie(await backend.session());
      expect(auth).toMatchObject({ status: "authenticated", claims: { sub: backend.person.id } });
      expect(backend.count("GET /auth/v1/user")).toBe(1);
      expect(backend.headers.get("/auth/v1/user")).toMatchObject({ apikey: backend.env.SUPABASE_SECRET_KEY });
    },
  );

  test("reports a session as unavailable within 5 seconds if neither the backend's keys nor the user can be fetched", async () => {
    backend.jwks = "hang";
    backend.user = "hang";
    const started = Date.now();
    const { auth, setCookies } = await withCookie(await backend.session());
    expect(auth.status).toBe("unavailable");
    expect(setCookies).toEqual([]);
    expect(Date.now() - started).toBeLessThan(5_000);
  });

  test("while the backend's keys are unavailable, a token that the backend rejects is refused", async () => {
    backend.jwks = "down";
    backend.user = "refused";
    expect((await withBearer(await backend.accessToken())).auth.status).toBe("anonymous");
  });

  test("after a failure, the backend's keys are fetched again only after 5 seconds", async () => {
    backend.jwks = "down";
    await withCookie(await backend.session());
    await withCookie(await backend.session());
    expect(backend.count("GET /auth/v1/.well-known/jwks.json")).toBe(1);
    backend.jwks = "ok";
    clockOffsetMs = 5_001;
    await withCookie(await backend.session());
    expect(backend.count("GET /auth/v1/.well-known/jwks.json")).toBe(2);
    expect(backend.count("GET /auth/v1/user")).toBe(2);
  });
});

describe("requests with a bearer token", () => {
  test("a request with a bearer token is authenticated by the token's claims", async () => {
    expect((await withBearer(await backend.accessToken())).auth).toMatchObject({
      status: "authenticated",
      via: "bearer",
    });
  });

  const bad: [string, TokenOptions][] = [
    ["that has expired", { expiresIn: -1 }],
    ["from another issuer", { issuer: "https://evil.example/auth/v1" }],
    ["for another audience", { audience: "anon" }],
    ["with an unknown key id", { kid: "k2" }],
    ["signed with another key", { foreignKey: true }],
    ["that uses our public key as a secret", { algorithm: "HS256" }],
  ];
  test.each(bad)("a bearer token %s is refused, and cookies sent with it are ignored", async (_, options) => {
    const jar = await jarWith(await backend.session());
    const { auth } = await withBearer(await backend.accessToken(options), jar);
    expect(auth.status).toBe("anonymous");
    expect(jar.setCookieHeaders()).toEqual([]);
    expect(backend.count("GET /auth/v1/user")).toBe(0);
  });

  test("a bearer token without a signature is refused, even if the keys are unavailable", async () => {
    const [, payload] = (await backend.accessToken()).split(".");
    const header = Buffer.from(JSON.stringify({ alg: "none", kid: "k1" })).toString("base64url");
    expect((await withBearer(`${header}.${payload}.`)).auth.status).toBe("anonymous");
    backend.jwks = "down";
    expect((await withBearer(`${header}.${payload}.`)).auth.status).toBe("anonymous");
  });

  test.each(["", "x", "a.b", "a b.c.d", "..", "null"])("the bearer token %j is refused", async (token) => {
    expect((await withBearer(token, await jarWith(await backend.session()))).auth.status).toBe("anonymous");
  });
});

test("an incomplete session cookie is ignored and removed", async () => {
  const jar = createCookieJar("sb-127-auth-token.1=leftover");
  expect((await withJar(jar)).auth.status).toBe("anonymous");
  expect(jar.setCookieHeaders().join()).toContain("sb-127-auth-token.1=; Max-Age=0");
});

test("a session whose signing key was removed is renewed with its refresh token", async () => {
  const { auth, kept } = await withCookie(await backend.session({ kid: "retired" }));
  expect(auth.status).toBe("authenticated");
  expect(kept?.refresh_token).toMatch(/^refresh-1 /);
});
