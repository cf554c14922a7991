import { spawnSync } from "node:child_process";
import { connect } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { type IdentityBackend, startIdentityBackend } from "../scripts/test/identity-backend.ts";
import { breakMfaPolicy, insertAuthenticators, query, requireMfa } from "../scripts/test/people.ts";
import type { WebProcess } from "./testing/web-process.ts";

const sessionPath = "/api/v1/auth/session";
let backend: IdentityBackend;
let web: WebProcess;

beforeAll(async () => {
  backend = await startIdentityBackend();
  web = await backend.startWeb({ env: { TRUSTED_PROXY_HOPS: "1" } });
});
beforeEach(async () => {
  await backend.newPerson();
});
afterEach(() => {
  Object.assign(backend, { jwks: "ok", user: "ok", refresh: "ok", state: "ok", rows: "ok" });
});
afterAll(async () => {
  await web.stop();
  await backend.close();
});

const authCookies = (response: Response) =>
  response.headers.getSetCookie().filter((value) => value.startsWith("sb-127-auth-token"));

describe("every response", () => {
  test.each([
    ["GET", "/login", 200],
    ["GET", "/no/such/page", 404],
    ["GET", "/", 302],
    ["DELETE", "/login", 405],
    ["POST", "/login", 403],
    ["GET", sessionPath, 401],
    ["GET", "/api/v1/nothing", 404],
    ["GET", "/healthz", 200],
    ["GET", "/assets/nothing.js", 404],
    ["GET", "/favicon.svg", 200],
  ])("the response to %s %s carries the security headers and a request id", async (method, path, status) => {
    const response = await web.fetch(path, { method, headers: { accept: "text/html", "x-request-id": "mine-1" } });
    expect(response.status).toBe(status);
    expect(response.headers.get("x-request-id")).toBe("mine-1");
    expect(response.headers.get("content-security-policy")).toMatch(
      /script-src 'self' 'nonce-[^']+'; style-src 'self';/,
    );
    expect(response.headers.get("referrer-policy")).toBe("same-origin");
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    await response.text();
  });

  test.each([
    ["", 0],
    ["192.0.2.1", 1],
    ["192.0.2.1:80, 198.51.100.1", 2],
  ])("/healthz counts the entries of X-Forwarded-For %j: %d", async (forwarded, count) => {
    const response = await web.fetch("/healthz", { headers: forwarded ? { "x-forwarded-for": forwarded } : {} });
    expect(await response.json()).toEqual({ status: "ok", app: "web", forwarded: count });
  });

  test("each response has a new nonce that allows the scripts of its page", async () => {
    const nonces = new Set<string>();
    for (let visit = 0; visit < 2; visit += 1) {
      const response = await web.fetch("/login");
      const nonce = /'nonce-([^']+)'/.exec(response.headers.get("content-security-policy") ?? "")?.[1] ?? "";
      const html = await response.text();
      expect(html.match(/<script/g)?.length).toBe(html.split(`nonce="${nonce}"`).length - 1);
      nonces.add(nonce);
    }
    expect(nonces.size).toBe(2);
  });

  test("only hashed files are cached as immutable, never pages", async () => {
    const page = await web.fetch("/login");
    expect(page.headers.get("cache-control")).toBe("private, no-store");
    const [asset] = /\/assets\/[^"]+\.css/.exec(await page.text()) ?? [];
    const response = await web.fetch(asset ?? "");
    expect(response.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
    expect(await response.text()).toContain("oklch");
  });
});

describe("a 405 response", () => {
  test.each([
    ["POST", "/api/v1/auth/session", "Send a GET request."],
    ["GET", "/api/v1/auth/qr-login/challenges", "Send a POST request."],
    ["PATCH", "/login", "Send a GET or POST request."],
    ["POST", "/api/v1/auth/accounts/current", "Send a PATCH request."],
    ["GET", "/logout", "Send a POST request."],
  ])("a 405 response to %s %s lists the allowed methods", async (method, path, detail) => {
    const response = await web.fetch(path, { method });
    expect([response.status, await response.json()]).toMatchObject([405, { code: "METHOD_NOT_ALLOWED", detail }]);
  });
});

describe("the order of the checks of a request", () => {
  const large = { method: "POST", body: "a".repeat(65_537), headers: { "content-type": "text/plain" } };

  test("requests are checked for 404 first, then 405, 401, 403 and 413", async () => {
    expect((await web.fetch("/nothing", large)).status).toBe(404);
    const wrongMethod = await web.fetch(sessionPath, large);
    expect([wrongMethod.status, wrongMethod.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    expect(await wrongMethod.json()).toMatchObject({ code: "METHOD_NOT_ALLOWED", detail: "Send a GET request." });
    const badBearer = { ...large, headers: { authorization: "Bearer not-a-token" } };
    expect((await web.fetch("/logout", badBearer)).status).toBe(401);
    expect((await web.fetch("/logout", large)).status).toBe(403);
    const form = (bytes: number) => ({
      method: "POST",
      body: `${"a".repeat(64)}=`.padEnd(bytes, "b"),
      headers: { "content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin" },
    });
    const tooLarge = await web.fetch("/theme", form(65_537));
    expect([tooLarge.status, await tooLarge.json()]).toMatchObject([413, { code: "PAYLOAD_TOO_LARGE" }]);
    expect((await web.fetch("/theme", form(65_536))).status).toBe(400);
  });

  test("a request that changes state must come from our origin, regardless of its content type", async () => {
    const form = { "content-type": "application/x-www-form-urlencoded" };
    for (const from of [
      {},
      { origin: "https://evil.example" },
      { origin: "null" },
      { origin: web.base, "sec-fetch-site": "same-site" },
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "none" },
    ]) {
      for (const path of ["/logout", "/logout.data", "/theme", "/login"]) {
        for (const content of [form, { "content-type": "text/plain" }]) {
          const init = { method: "POST", headers: { ...from, ...content }, body: "theme=dark" };
          const refused = await web.fetch(path, init as RequestInit);
          const answer = [path, refused.status, (await refused.json()).code];
          expect(answer, JSON.stringify(init.headers)).toEqual([path, 403, "CSRF_REJECTED"]);
        }
      }
    }
    const own = { method: "POST", headers: { ...form, origin: web.base }, body: "theme=dark" };
    expect((await web.fetch("/theme", own)).status).toBe(303);
  });

  test("a refused request gets an HTML page if it accepts HTML, and problem JSON otherwise", async () => {
    const page = await web.fetch("/logout", { method: "POST", headers: { accept: "text/html" } });
    expect(page.headers.get("content-type")).toContain("text/html");
    expect(await page.text()).toContain(page.headers.get("x-request-id"));
    const json = await web.fetch("/logout", { method: "POST" });
    expect(json.headers.get("content-type")).toBe("application/problem+json");
    expect(await json.json()).toMatchObject({ code: "CSRF_REJECTED", status: 403 });
  });
});

describe("a refusal by a route without a page", () => {
  const headers = async (accept: string) => ({
    accept,
    cookie: await backend.cookieOf(await backend.session()),
    "sec-fetch-site": "same-origin",
  });

  test.each([
    ["a file download", "GET", `/workspaces/${crypto.randomUUID()}/ai/usage.csv`, 404, "Not found"],
    ["a form action", "POST", "/theme", 400, "The request is invalid"],
  ])("when %s is refused, a browser gets a page and a script gets problem JSON", async (_, ...asked) => {
    const [method, path, status, title] = asked;
    const init = { method, ...(method === "POST" ? { body: new URLSearchParams({ theme: "purple" }) } : {}) };
    const page = await web.fetch(path, { ...init, headers: await headers("text/html,*/*;q=0.8") });
    expect([page.status, page.headers.get("content-type")]).toEqual([status, "text/html; charset=utf-8"]);
    const html = await page.text();
    expect(html).toContain(`${title}</h1>`);
    expect(html).toContain(page.headers.get("x-request-id"));
    const json = await web.fetch(path, { ...init, headers: await headers("*/*") });
    expect([json.status, json.headers.get("content-type")]).toEqual([status, "application/problem+json"]);
  });
});

describe("a body that is not a form", () => {
  const post = (headers: Record<string, string>, body: string) =>
    web.fetch("/login", { method: "POST", headers: { "sec-fetch-site": "same-origin", ...headers }, body });

  test.each([
    ["application/json", "{}", 415],
    ["text/plain", "email=a", 415],
    ["", "email=a", 415],
    ["multipart/form-data", "email=a", 400],
    ["multipart/form-data; boundary=b", "--b\r\nnonsense", 400],
    ["application/x-www-form-urlencoded", "%zz=%00&email=\ud800&password[]=1", 400],
  ])("a body of type %j that is not a valid form is refused with a 4xx status", async (type, body, status) => {
    expect((await post({ "content-type": type }, body)).status).toBe(status);
  });
});

describe("sessions on the web server", () => {
  test("the session endpoint returns the caller's session, by cookie or bearer token", async () => {
    const { id, email } = backend.person;
    const expected = {
      user: { id, email, displayName: email.split("@")[0], avatarUrl: null },
      aal: "aal1",
      mfa: { required: false, satisfied: true },
      activeAccountId: id,
    };
    const credentials: [string, string][] = [
      ["cookie", await backend.cookieOf(await backend.session())],
      ["authorization", `Bearer ${await backend.accessToken()}`],
    ];
    for (const headers of credentials.map((header) => [header])) {
      const response = await web.fetch(sessionPath, { headers });
      expect(response.headers.get("cache-control")).toBe("private, no-store");
      expect(await response.json()).toMatchObject(expected);
    }
  });

  test("a session used in 20 concurrent requests is refreshed only once, and every response sets the cookie", async () => {
    const paths = [sessionPath, "/login", "/workspaces/none", "/auth/confirm?type=none"];
    // Visits each path once to warm up the server. Otherwise, compilation could delay the twenty requests until the
    // policy lookup times out.
    const visitor = { cookie: await backend.cookieOf(await backend.session()) };
    await Promise.all(paths.map((path) => web.fetch(path, { headers: visitor })));
    const before = backend.count("POST /auth/v1/token");
    const cookie = await backend.cookieOf(await backend.session({ expiresIn: -10 }));
    const responses = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        web.fetch(paths[index % paths.length] ?? "/", {
          headers: { cookie, "x-forwarded-for": "6.6.6.6, 203.0.113.7" },
        }),
      ),
    );
    expect(backend.count("POST /auth/v1/token") - before).toBe(1);
    expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200, 302, 404, 400]));
    for (const response of responses) expect(authCookies(response)).toHaveLength(1);
    expect(backend.headers.get("/auth/v1/token")).toMatchObject({
      apikey: backend.env.SUPABASE_SECRET_KEY,
      authorization: `Bearer ${backend.env.SUPABASE_PUBLISHABLE_KEY}`,
      "sb-forwarded-for": "203.0.113.7",
    });
  });

  test("a session that has ended in the database is signed out, even with a valid token", async () => {
    const ban = () =>
      query("update auth.users set banned_until = now() + interval '1 hour' where id = $1", [backend.person.id]);
    for (const end of [backend.endSessions, ban]) {
      const cookie = await backend.cookieOf(await backend.session());
      await end();
      const response = await web.fetch("/workspaces?x=1", { headers: { cookie } });
      expect(response.headers.get("location")).toBe("/login?returnUrl=%2Fworkspaces%3Fx%3D1");
      expect(authCookies(response).join()).toContain("Max-Age=0");
    }
  });

  test.each(["down", "hang", "malformed-policy"] as const)(
    "a session that the database cannot confirm (%s) returns 503 and keeps the cookies",
    async (state) => {
      if (state === "malformed-policy") await breakMfaPolicy(backend.person);
      else backend.state = state;
      const headers = { cookie: await backend.cookieOf(await backend.session()), accept: "text/html" };
      const api = await web.fetch(sessionPath, { headers });
      expect([api.status, await api.json()]).toMatchObject([503, { code: "AUTH_UNAVAILABLE" }]);
      const page = await web.fetch("/", { headers });
      expect(page.status).toBe(503);
      for (const response of [api, page]) expect(response.headers.get("retry-after")).toBe("5");
      expect(await page.text()).toContain("We can’t check your sign-in right now");
      for (const response of [api, page]) expect(authCookies(response)).toEqual([]);
    },
  );

  test("a session that cannot be verified returns 503 within a bounded time and keeps the cookies", async () => {
    const lonely = await backend.startWeb();
    try {
      Object.assign(backend, { jwks: "hang", user: "hang", refresh: "hang" });
      const started = Date.now();
      const response = await lonely.fetch(sessionPath, {
        headers: { cookie: await backend.cookieOf(await backend.session()) },
      });
      expect([response.status, await response.json()]).toMatchObject([503, { code: "AUTH_UNAVAILABLE" }]);
      expect(authCookies(response)).toEqual([]);
      expect(Date.now() - started).toBeLessThan(10_000);
    } finally {
      await lonely.stop();
    }
  });

  test("a session that lacks a required second step opens no page, but still gets refreshed cookies", async () => {
    await requireMfa(backend.person);
    const cookie = await backend.cookieOf(await backend.session({ expiresIn: 30 }));
    const page = await web.fetch("/", { headers: { cookie } });
    expect([page.status, page.headers.get("location")]).toEqual([302, "/mfa/enroll"]);
    expect(authCookies(page)).toHaveLength(1);
    expect((await web.fetch(sessionPath, { headers: { cookie } })).status).toBe(200);
  });

  test.each([
    { authenticators: [], fresh: { provenSecondsAgo: 590 }, stale: { provenSecondsAgo: 601 } },
    {
      authenticators: ["phone"],
      fresh: { provenSecondsAgo: 9_000, codeSecondsAgo: 590 },
      stale: { provenSecondsAgo: 0, codeSecondsAgo: 601 },
    },
  ])(
    "a session must step up before a password change if its last proof of identity is older than ten minutes (authenticators $authenticators)",
    async (row) => {
      const { authenticators, fresh, stale } = row;
      await insertAuthenticators(backend.person, authenticators);
      const visit = async (options: object) =>
        web.fetch("/reset-password", {
          headers: { cookie: await backend.cookieOf(await backend.session(options)) },
        });
      expect((await visit(fresh)).status).toBe(200);
      expect((await visit(stale)).headers.get("location")).toBe("/step-up?returnUrl=%2Freset-password");
      const post = await web.fetch("/reset-password?first=", {
        method: "POST",
        headers: {
          cookie: await backend.cookieOf(await backend.session(stale)),
          "sec-fetch-site": "same-origin",
          referer: `${web.base}/reset-password?first=`,
        },
        body: new URLSearchParams({ password: "a new password" }),
      });
      expect(post.headers.get("location")).toBe("/step-up?returnUrl=%2Freset-password%3Ffirst%3D");
      expect(backend.count("PUT /auth/v1/user")).toBe(0);
    },
  );

  test("an invalid bearer token returns 401, regardless of cookies", async () => {
    const cookie = await backend.cookieOf(await backend.session());
    const expired = await backend.accessToken({ expiresIn: -10 });
    for (const authorization of ["Bearer x", `Bearer ${expired}`, "Basic YTpi"]) {
      const response = await web.fetch(sessionPath, { headers: { cookie, authorization } });
      expect(response.status).toBe(401);
      expect(authCookies(response)).toEqual([]);
    }
  });

  test("sign-out ends the session in the database and clears every variant of its cookie", async () => {
    const shared = await backend.startWeb({
      env: { BASE_URL: "https://app.example.com", PARENT_DOMAIN: "example.com" },
    });
    try {
      const response = await shared.fetch("/logout", {
        method: "POST",
        headers: {
          cookie: await backend.cookieOf(await backend.session(), { origin: "https://app.example.com" }),
          "sec-fetch-site": "same-origin",
          host: "app.example.com",
        },
        body: new URLSearchParams(),
      });
      expect([response.status, response.headers.get("location")]).toEqual([302, "/login"]);
      expect(backend.count("POST /rest/v1/rpc/sign_out_device")).toBeGreaterThan(0);
      const cleared = authCookies(response);
      expect(cleared.every((value) => value.includes("Max-Age=0"))).toBe(true);
      expect(cleared.map((value) => value.includes("Domain=example.com")).sort()).toEqual([false, true]);
    } finally {
      await shared.stop();
    }
  });
});

describe("an internal error", () => {
  test.each([
    ["a failing Data API", "down" as const, 503, "The service is unavailable right now"],
    ["an invalid row", [{ id: 7 }], 500, "Something went wrong on our side"],
  ])(
    "an internal error caused by %s returns a page that reveals nothing but a request id",
    async (_, rows, status, title) => {
      backend.rows = rows;
      const response = await web.fetch("/", {
        headers: { cookie: await backend.cookieOf(await backend.session()) },
      });
      expect(response.status).toBe(status);
      const html = await response.text();
      expect(html).toContain(title);
      expect(html).toContain(response.headers.get("x-request-id"));
      expect(html).not.toMatch(/internal text|XX000|ZodError|node_modules|invalid_type/);
      expect(web.output()).toContain(`error request=${response.headers.get("x-request-id")}`);
    },
  );
});

describe("the server's process", () => {
  const compiled = { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE };

  test("the server logs no query, token or key", async () => {
    await web.fetch("/auth/confirm?token_hash=secret-hash-0123456789&type=signup");
    expect(web.output()).toContain('path="/auth/confirm"');
    expect(web.output()).not.toMatch(/secret-hash|sb_secret|sb_publishable|eyJ|refresh-\d/);
  });

  test.each(["1", "2"])(
    "with %s processes, the server reports missing settings, one per line, and does not start",
    (count) => {
      const { status, stderr } = spawnSync(process.execPath, ["remix-app/server.ts"], {
        env: {
          ...compiled,
          NODE_ENV: "production",
          BASE_URL: "http://localhost:1",
          SUPABASE_URL: "http://localhost:2",
          WEB_PROCESSES: count,
        },
        encoding: "utf8",
      });
      expect(status).toBe(1);
      expect(stderr.trim().split("\n")).toEqual([
        expect.stringMatching(/^SUPABASE_PUBLISHABLE_KEY is missing: /),
        expect.stringMatching(/^SUPABASE_SECRET_KEY is missing: /),
      ]);
    },
  );

  test.each(["1", "2"])(
    "with %s processes, the server exits with 1 and reports a port that is already in use",
    (count) => {
      const { port } = new URL(web.base);
      const { status, stderr } = spawnSync(process.execPath, ["remix-app/server.ts"], {
        env: {
          ...compiled,
          NODE_ENV: "production",
          BASE_URL: web.base,
          PORT: port,
          WEB_PROCESSES: count,
          SUPABASE_URL: backend.url,
          SUPABASE_PUBLISHABLE_KEY: "p",
          SUPABASE_SECRET_KEY: "s",
          AUTH_RECOVERY_HASH_SECRET: "a secret of tests, for what recovery mails carry",
        },
        encoding: "utf8",
      });
      expect(status).toBe(1);
      expect(stderr.match(/^Port .*/gm)).toEqual([expect.stringContaining(`Port ${port} on 127.0.0.1 is taken`)]);
    },
  );

  test("the server completes pending requests on SIGTERM and exits with 0", async () => {
    const stopping = await backend.startWeb();
    backend.state = "hang";
    const stateCall = "POST /rest/v1/rpc/device_session_state";
    const before = backend.count(stateCall);
    const headers = { cookie: await backend.cookieOf(await backend.session()) };
    const underWay = stopping.fetch(sessionPath, { headers });
    await vi.waitUntil(() => backend.count(stateCall) > before, { timeout: 10_000 });
    const idle = connect(Number(new URL(stopping.base).port), "127.0.0.1").on("error", () => undefined);
    const stopped = stopping.stop();
    expect((await underWay).status).toBe(503);
    expect(await stopped).toBe(0);
    idle.destroy();
  });
});
