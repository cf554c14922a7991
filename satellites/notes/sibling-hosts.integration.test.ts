import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startSatellite, type WebProcess } from "../../remix-app/testing/web-process.ts";
import { createApp, createPerson, mint, type Person, service, type TestApp } from "../../scripts/test/apps.ts";
import { query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";

/** A satellite behind https, on a domain with other hosts that must not affect its cookies. */
const origin = `https://notes-${randomBytes(4).toString("hex")}.example`;
let satellite: WebProcess;
let app: TestApp;
let [victim, attacker] = [{} as Person, {} as Person];

beforeAll(async () => {
  const scopes = ["profile", "workspaces:read", "workspaces:write"];
  [victim, attacker, app] = await Promise.all([
    createPerson(),
    createPerson(),
    createApp({ scopes, origins: [origin] }),
  ]);
  satellite = await startSatellite({ app, centralUrl: readStack().base, env: { BASE_URL: origin } });
});
afterAll(async () => {
  await satellite.stop();
  await Promise.all([victim, attacker].map(({ id }) => service.auth.admin.deleteUser(id)));
});

type Cookies = Record<string, string>;
const header = (cookies: Cookies) =>
  Object.entries(cookies)
    .map(([name, value]) => `${name}=${value}`)
    .join("; ");
const setBy = (response: Response): Cookies =>
  Object.fromEntries(
    response.headers.getSetCookie().map((line) => {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      return [name, value];
    }),
  );
const get = (path: string, cookies: Cookies = {}) =>
  satellite.fetch(path, { headers: { accept: "text/html", cookie: header(cookies) } });
const page = async (cookies: Cookies) => (await get("/", cookies)).text();

async function enter(person: Person): Promise<Response> {
  return satellite.fetch("/api/auth/verify-app-token", {
    method: "POST",
    headers: { "content-type": "application/json", origin },
    body: JSON.stringify({ token: await mint(person, app) }),
  });
}

describe("a satellite behind https", () => {
  test("behind https, a satellite seals its session with a __Host- cookie, which no other host can set", async () => {
    const response = await enter(victim);
    const lines = response.headers.getSetCookie();
    expect(lines.map((line) => line.split("=")[0])).toEqual([
      "platform_app_session",
      "platform_central_session",
      "__Host-platform_session_seal",
    ]);
    for (const line of lines) {
      expect(line).toMatch(/; Path=\/(;|$)/);
      expect(line).toMatch(/; Secure/);
      expect(line).toMatch(/; HttpOnly/);
      expect(line).not.toMatch(/Domain=/);
    }
    expect(await page(setBy(response))).toContain(victim.email);
  });

  test("rejects a session cookie planted by another host, and never mixes two people's session cookies", async () => {
    const [own, theirs] = [setBy(await enter(victim)), setBy(await enter(attacker))];
    const { "__Host-platform_session_seal": seal = "" } = own;
    const planted = { platform_app_session: theirs.platform_app_session ?? "" };
    const mixtures: Cookies[] = [
      planted,
      { ...theirs, "__Host-platform_session_seal": "" },
      { ...theirs, "__Host-platform_session_seal": seal },
      { ...own, ...planted },
      { ...own, platform_central_session: theirs.platform_central_session ?? "" },
      { platform_app_session: own.platform_app_session ?? "", "__Host-platform_session_seal": seal },
    ];
    for (const cookies of mixtures) {
      const text = await page(cookies);
      expect(text).toContain("Sign in with your Gatehouse account");
      expect(text).not.toContain(attacker.email);
    }
    expect(await page(own)).toContain(victim.email);
  });

  test("a refreshed satellite session has a new seal, and the old seal no longer works", async () => {
    const before = setBy(await enter(victim));
    await query(
      "update private.app_sessions set expires_at = now() + interval '10 minutes' where user_id = $1 and revoked_at is null",
      [victim.id],
    );
    const after = setBy(await get("/", before));
    expect(Object.keys(after).sort()).toEqual(Object.keys(before).sort());
    expect(await page(after)).toContain(victim.email);
    expect(
      await page({ ...after, "__Host-platform_session_seal": before["__Host-platform_session_seal"] ?? "" }),
    ).toContain("Sign in with your Gatehouse account");
  });

  test("a state cookie planted by another host does not make a sign-in count as started in this browser", async () => {
    const token = await mint(attacker, app);
    const link = `/verify-token?token=${token}&nextUrl=/&state=known`;
    const planted = await (await get(link, { platform_sign_in_state: "known" })).text();
    expect(planted.replaceAll("<wbr/>", "")).toContain(`Continue as ${attacker.email}`);
    expect(planted).toContain('data-auto="false"');
    const own = await (await get(link, { "__Host-platform_sign_in_state": "known" })).text();
    expect(own).toContain('data-auto="true"');
    const forced = await satellite.fetch("/api/auth/verify-app-token", {
      method: "POST",
      headers: { "content-type": "application/json", origin, cookie: "platform_sign_in_state=known" },
      body: JSON.stringify({ token, state: "known" }),
    });
    expect([forced.status, forced.headers.getSetCookie()]).toEqual([401, []]);
  });
});

describe("forged host headers and return addresses", () => {
  test.each<Record<string, string>>([
    { host: "evil.example" },
    { host: "evil.example", "x-forwarded-host": "evil.example", "x-forwarded-proto": "http" },
    { forwarded: "host=evil.example" },
  ])("a sign-in returns to the satellite's own origin despite the headers %j", async (headers) => {
    const response = await satellite.fetch("/w/1?x=2", { headers: { accept: "text/html", ...headers } });
    const returnUrl = new URL(response.headers.get("location") ?? "").searchParams.get("returnUrl");
    expect(returnUrl).toBe(`${origin}/w/1?x=2`);
  });

  test.each(["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/.//evil.example"])(
    "a sign-in returns only to the satellite's own pages, not to %s",
    async (returnTo) => {
      const response = await get(`/sign-in?${new URLSearchParams({ returnTo })}`);
      const returnUrl = new URL(response.headers.get("location") ?? "").searchParams.get("returnUrl");
      expect(returnUrl).toBe(`${origin}/`);
    },
  );
});

test("a satellite's log contains no token, secret or session", async () => {
  const token = await mint(victim, app);
  await get(`/verify-token?token=${token}&nextUrl=/&state=s`);
  const cookies = setBy(await enter(victim));
  await page(cookies);
  await get("/w/..%2f..%2fauth%2fsession", cookies);
  const log = satellite.output();
  expect(log).toContain("/verify-token");
  for (const secret of [token, app.secret, ...Object.values(cookies)]) expect(log).not.toContain(secret);
});
