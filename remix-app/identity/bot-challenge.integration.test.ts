import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type IdentityBackend, startIdentityBackend } from "../testing/identity-backend.ts";
import { visitorHeaders } from "../testing/visitor.ts";
import { startWeb, type WebProcess } from "../testing/web-process.ts";

const settings = { TRUSTED_PROXY_HOPS: "1", TURNSTILE_SITE_KEY: "a-site-key" };
const bypass = { ...settings, E2E_BOT_CHALLENGE_BYPASS: "on" };
/** The same backend on this machine, by a name that does not say so. */
const remoteUrl = "http://backend.gatehouse.test:54321";
const started: WebProcess[] = [];
let backend: IdentityBackend;

beforeAll(async () => {
  backend = await startIdentityBackend();
});
afterEach(async () => {
  backend.refresh = "ok";
  await Promise.all(started.splice(0).map((web) => web.stop()));
});
afterAll(() => backend.close());

async function start(url: string, env: Record<string, string>): Promise<WebProcess> {
  const web = await startWeb(url, { env });
  started.push(web);
  return web;
}

const signIn = (web: WebProcess, fields: Record<string, string> = {}) =>
  web.fetch("/login", {
    method: "POST",
    headers: visitorHeaders(),
    body: new URLSearchParams({ email: "ada@example.test", password: "correct horse", ...fields }),
  });
const asksForIt = async (web: WebProcess) => (await (await web.fetch("/login")).text()).includes("data-bot-challenge");

describe("the bypass of browser tests", () => {
  test("leaves the challenge out where the backend is on this machine", async () => {
    const web = await start(backend.url, bypass);
    expect(await asksForIt(web)).toBe(false);
    expect((await signIn(web)).status).toBe(302);
  });

  test("changes nothing where the backend is elsewhere", async () => {
    const web = await start(remoteUrl, bypass);
    expect(await asksForIt(web)).toBe(true);
    const response = await signIn(web);
    expect(response.status).toBe(403);
    expect(await response.text()).toContain("The check that you are a person is missing.");
  });

  test("is off unless it is set", async () => {
    const web = await start(backend.url, settings);
    expect(await asksForIt(web)).toBe(true);
    expect((await signIn(web)).status).toBe(403);
  });
});

describe("a token", () => {
  test("is passed on to the backend, which alone judges it", async () => {
    const web = await start(backend.url, settings);
    expect((await signIn(web, { botChallengeToken: "some-token" })).status).toBe(302);
    backend.refresh = { status: 400, code: "captcha_failed" };
    const refused = await signIn(web, { botChallengeToken: "some-token" });
    expect(refused.status).toBe(403);
    expect(await refused.text()).toContain("was refused or is too old. Complete it again.");
  });

  test("of blanks is none", async () => {
    const web = await start(backend.url, settings);
    expect((await signIn(web, { botChallengeToken: "  " })).status).toBe(403);
  });
});

test("the widget comes from Cloudflare unless it is said otherwise", async () => {
  const web = await start(backend.url, settings);
  const response = await web.fetch("/login");
  expect(response.headers.get("content-security-policy")).toContain("frame-src https://challenges.cloudflare.com;");
  expect(await response.text()).toContain("https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit");
});
