import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type IdentityBackend, startIdentityBackend } from "../../scripts/test/identity-backend.ts";
import { visitorHeaders } from "../testing/visitor.ts";
import { startWeb, type WebProcess } from "../testing/web-process.ts";

const settings = { TRUSTED_PROXY_HOPS: "1", TURNSTILE_SITE_KEY: "a-site-key" };
const bypass = { ...settings, E2E_BOT_CHALLENGE_BYPASS: "on" };
/** The same local backend under a host name that doesn't look local. */
const remoteUrl = "http://backend.gatehouse.test:54321";
let backend: IdentityBackend;
let web: WebProcess;

beforeAll(async () => {
  backend = await startIdentityBackend();
  web = await backend.startWeb({ env: settings });
});
afterEach(() => {
  backend.refresh = "ok";
  backend.mails = "ok";
  backend.attempts = "ok";
});
afterAll(async () => {
  await web.stop();
  await backend.close();
});

const newEmail = () => `${crypto.randomUUID()}@integration.gatehouse.test`;
const signIn = (at: WebProcess, fields: Record<string, string> = {}) =>
  at.fetch("/login", {
    method: "POST",
    headers: visitorHeaders(),
    body: new URLSearchParams({ email: newEmail(), password: "correct horse", ...fields }),
  });
const asksForIt = async (at: WebProcess) => (await (await at.fetch("/login")).text()).includes("data-bot-challenge");

describe("the bot challenge bypass for browser tests", () => {
  test("the bot challenge bypass applies if the backend is on this machine", async () => {
    const bypassed = await backend.startWeb({ env: bypass });
    try {
      expect(await asksForIt(bypassed)).toBe(false);
      expect((await signIn(bypassed)).status).toBe(302);
    } finally {
      await bypassed.stop();
    }
  });

  test("the bot challenge bypass has no effect if the backend is remote", async () => {
    const remote = await startWeb(remoteUrl, { env: bypass });
    try {
      expect(await asksForIt(remote)).toBe(true);
      const response = await signIn(remote);
      expect(response.status).toBe(403);
      expect(await response.text()).toContain("We couldn’t verify that you’re human.");
    } finally {
      await remote.stop();
    }
  });

  test("the bot challenge bypass is off by default", async () => {
    expect(await asksForIt(web)).toBe(true);
    expect((await signIn(web)).status).toBe(403);
  });
});

describe("a bot challenge token", () => {
  test("passes a bot challenge token to the identity backend without validating it", async () => {
    expect((await signIn(web, { botChallengeToken: "some-token" })).status).toBe(302);
    backend.refresh = { status: 400, code: "captcha_failed" };
    const refused = await signIn(web, { botChallengeToken: "some-token" });
    expect(refused.status).toBe(403);
    expect(await refused.text()).toContain("failed or has expired. Complete it again.");
  });

  test("treats a blank bot challenge token as missing", async () => {
    expect((await signIn(web, { botChallengeToken: "  " })).status).toBe(403);
  });
});

describe.each(["/forgot-password", "/signup", "/signup/check-mail", "/login/code"])(
  "%s sends no email because another was just sent",
  (path) => {
    const fields = { email: "ada@example.test", password: "correct horse battery", botChallengeToken: "some-token" };
    const ask = () => web.fetch(path, { method: "POST", headers: visitorHeaders(), body: new URLSearchParams(fields) });
    const attempt = { allowed: true, attemptId: crypto.randomUUID(), needsBotChallenge: false };
    const held = { ...attempt, mailWaitSeconds: 100, mailPauseSeconds: 180 };

    test.each([
      { mails: { status: 400, code: "captcha_failed" }, status: 403 },
      { mails: { status: 429, code: "over_request_rate_limit" }, status: 429 },
      { mails: "down", status: 503 },
    ] as const)(
      "if the backend responds with $mails, no email is sent, and the answer is the same as for an unknown address",
      async ({ mails, status }) => {
        backend.mails = mails;
        expect((await ask()).status).toBe(status);
        backend.attempts = held;
        expect((await ask()).status).toBe(status);
      },
    );

    test("when an email is withheld, the server instead requests a password reset for an address without an account", async () => {
      const { status } = await ask();
      backend.attempts = held;
      const seen = backend.calls.length;
      expect((await ask()).status).toBe(status);
      const calls = backend.calls.slice(seen);
      expect(calls).toContain("POST /auth/v1/recover");
      expect(calls).not.toContain("POST /auth/v1/resend");
      expect(calls).not.toContain("POST /auth/v1/signup");
      expect(calls).not.toContain("POST /auth/v1/otp");
      expect(backend.bodies.get("/auth/v1/recover")).toMatchObject({ email: "unknown@gatehouse.invalid" });
    });
  },
);

test("loads the bot challenge widget from Cloudflare by default", async () => {
  const response = await web.fetch("/login");
  expect(response.headers.get("content-security-policy")).toContain("frame-src https://challenges.cloudflare.com;");
  expect(await response.text()).toContain("https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit");
});

test("the CSP allows the bot challenge's origin only on pages that show the challenge", async () => {
  const policyOf = async (path: string) => (await web.fetch(path)).headers.get("content-security-policy") ?? "";
  const origin = /script-src 'self' 'nonce-[^']+' (https:\/\/challenges\.cloudflare\.com);.*frame-src \1;/;
  for (const path of ["/login", "/signup", "/forgot-password", "/signup/check-mail"])
    expect(await policyOf(path), path).toMatch(origin);
  for (const path of ["/auth/confirm", "/no/such/page", "/healthz"])
    expect(await policyOf(path), path).not.toMatch(/frame-src|cloudflare/);
});
