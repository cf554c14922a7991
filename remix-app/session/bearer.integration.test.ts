import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { type IdentityBackend, startIdentityBackend } from "../../scripts/test/identity-backend.ts";
import type { WebProcess } from "../testing/web-process.ts";

let backend: IdentityBackend;
let web: WebProcess;
let cookie: string;
let bearer: string;

beforeAll(async () => {
  backend = await startIdentityBackend();
  web = await backend.startWeb();
  // Waits for the call that the server makes at startup, so that no test counts it.
  const probe = "POST /auth/v1/passkeys/authentication/options";
  await vi.waitFor(() => expect(backend.calls).toContain(probe), { timeout: 10_000 });
});
beforeEach(async () => {
  cookie = await backend.cookieOf(await backend.session());
  bearer = `Bearer ${await backend.accessToken()}`;
  backend.calls.length = 0;
});
afterAll(async () => {
  await web.stop();
  await backend.close();
});

const email = `${crypto.randomUUID()}@integration.gatehouse.test`;
const forms: [string, Record<string, string>][] = [
  ["/login", { email, password: "x" }],
  ["/signup", { email, password: "long enough" }],
  ["/signup/check-mail", { email }],
  ["/forgot-password", { email }],
  ["/reset-password", { password: "long enough" }],
  ["/auth/confirm", { token_hash: "a".repeat(56), type: "signup" }],
  ["/logout", {}],
  ["/theme", { theme: "dark" }],
  ["/login.data", { email, password: "x" }],
];

async function post(path: string, fields: Record<string, string>, headers: Record<string, string>) {
  const response = await web.fetch(path, { method: "POST", body: new URLSearchParams(fields), headers });
  await response.text();
  return { status: response.status, setCookies: response.headers.getSetCookie(), written: backend.calls.filter(acts) };
}

/**
 * Matches calls to the identity backend that can change an account. The server's scheduled tasks never match, because
 * they call only the Data API.
 */
const acts = (call: string) => /^(?!GET )\w+ \/auth\/v1\//.test(call);

describe("forms on our pages", () => {
  test.each(forms)("the form at %s refuses a bearer token, and neither uses nor sets cookies", async (path, fields) => {
    const brought: Record<string, string>[] = [{ authorization: bearer, cookie }, { authorization: bearer }];
    for (const headers of brought) {
      for (const site of ["same-origin", "cross-site"]) {
        const answer = await post(path, fields, { ...headers, "sec-fetch-site": site });
        expect(answer).toEqual({ status: 403, setCookies: [], written: [] });
      }
    }
  });

  test.each(["", "Basic YTpi", "Bearer", "Bearer x"])(
    "a form sent with the header Authorization %j is refused",
    async (authorization) => {
      for (const [path, fields] of forms) {
        const headers = { authorization, cookie, origin: "https://evil.example", "sec-fetch-site": "cross-site" };
        expect(await post(path, fields, headers)).toEqual({ status: 401, setCookies: [], written: [] });
      }
    },
  );
});

describe("a request with a bearer token", () => {
  test("a request with a bearer token uses only the token's account, and cookies sent with it are neither read, refreshed nor cleared", async () => {
    const cookies = [
      await backend.cookieOf(await backend.session({ expiresIn: -10 })),
      "sb-127-auth-token=garbage",
      cookie,
    ];
    for (const given of cookies) {
      for (const path of ["/", "/login", "/reset-password", "/api/v1/auth/session"]) {
        const response = await web.fetch(path, { headers: { authorization: bearer, cookie: given } });
        await response.text();
        expect(response.headers.getSetCookie()).toEqual([]);
        expect(response.headers.get("cache-control")).toBe("private, no-store");
      }
    }
    expect(backend.calls.filter(acts)).toEqual([]);
  });
});
