import { request as httpRequest } from "node:http";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { borrowFaultyWeb, type FaultyWeb } from "../../scripts/test/faulty-web.ts";
import { visitorHeaders } from "../testing/visitor.ts";

let { backend, web } = {} as FaultyWeb;

beforeAll(async () => {
  ({ backend, web } = await borrowFaultyWeb());
});
beforeEach(() => {
  backend.attempts = "ok";
  backend.rows = "ok";
  backend.calls.length = 0;
});

const email = `${crypto.randomUUID()}@integration.gatehouse.test`;
const forms: [string, Record<string, string>][] = [
  ["/login", { email, password: "correct horse battery" }],
  ["/signup", { email, password: "correct horse battery" }],
  ["/forgot-password", { email }],
  ["/signup/check-mail", { email }],
  ["/auth/confirm", { token_hash: "a".repeat(56), type: "signup" }],
];
const post = (path: string, fields: Record<string, string>, headers = visitorHeaders()) =>
  web.fetch(path, { method: "POST", headers, body: new URLSearchParams(fields) });
/** Excludes the calls that the server makes at startup to read the keys and to check whether passkeys are enabled. */
const identityCalls = () => backend.calls.filter((call) => call.includes("/auth/v1/") && !/jwks|passkeys/.test(call));

describe.each(forms)("the form at %s if attempts are refused or can't be counted", (path, fields) => {
  test.each(["down", "nonsense", "hang"] as const)(
    "if attempts can't be counted (%s), a form returns 503 and sends no credentials to the backend",
    async (attempts) => {
      backend.attempts = attempts;
      const response = await post(path, fields);
      expect([response.status, response.headers.get("retry-after")]).toEqual([503, "5"]);
      expect(identityCalls()).toEqual([]);
      const page = await response.text();
      expect(page).toContain("Try again in a moment.");
      if (fields.email) expect(page).toContain(fields.email);
      expect(page).not.toContain("correct horse battery");
      expect(page).toContain(
        `Request ID <code class="inline-block break-all font-mono">${response.headers.get("x-request-id")}<`,
      );
    },
  );

  test("sends no credentials to the backend if the limits refuse the attempt, and answers 429 with the time to wait", async () => {
    backend.attempts = { allowed: false, reason: "limited", retryAfterSeconds: 170 };
    const response = await post(path, fields);
    expect([response.status, response.headers.get("retry-after")]).toEqual([429, "170"]);
    expect(identityCalls()).toEqual([]);
    const page = await response.text();
    expect(page).toContain("Too many attempts. Try again in 3 minutes.");
    expect(page).not.toContain("Request ID");
  });

  test("a form from a blocked address returns 429 and sends no credentials to the backend", async () => {
    backend.attempts = { allowed: false, reason: "blocked", retryAfterSeconds: 21_600 };
    const response = await post(path, fields);
    expect([response.status, response.headers.get("retry-after")]).toEqual([429, "21600"]);
    expect(identityCalls()).toEqual([]);
    expect(await response.text()).toContain("from your network. Try again in 6 hours.");
  });

  test("sends no credentials to the backend if the client is an attack tool or has no user agent", async () => {
    for (const userAgent of ["sqlmap/1.8", undefined]) {
      const { status, page } = await postAs(userAgent, path, fields);
      expect(status).toBe(403);
      expect(page).toContain("Use an up-to-date browser");
    }
    // The sign-up page reads whether sign-up is open.
    expect(backend.calls.filter((call) => !call.endsWith("/read_sign_up"))).toEqual([]);
  });
});

test("completes a sign-in even if the attempt can't be recorded as successful", async () => {
  backend.rows = "down";
  const response = await post("/login", { email, password: "correct horse battery" });
  expect([response.status, response.headers.get("location")]).toEqual([302, "/"]);
  expect(web.output()).toContain("an attempt stays counted");
});

/** Posts a form without `fetch`, which always sends a user agent. */
function postAs(userAgent: string | undefined, path: string, fields: Record<string, string>) {
  const headers = {
    ...visitorHeaders(),
    "content-type": "application/x-www-form-urlencoded",
    ...(userAgent === undefined ? {} : { "user-agent": userAgent }),
  };
  return new Promise<{ status: number | undefined; page: string }>((resolve, reject) => {
    const url = new URL(path, web.base.replace("localhost", "127.0.0.1"));
    const sent = httpRequest(url, { method: "POST", headers }, (response) => {
      let page = "";
      response.on("data", (chunk) => (page += chunk));
      response.on("end", () => resolve({ status: response.statusCode, page }));
    });
    sent.once("error", reject).end(String(new URLSearchParams(fields)));
  });
}
