import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createCookieJar } from "../http/cookies.ts";
import { emailCodeSchema, readCodeRequest, saveCodeRequest } from "./email-code.ts";

const env = { SUPABASE_SECRET_KEY: "a secret key" };
const origin = "https://app.example.com";
const contextOf = (cookie: string | null) => ({ env, origin, jar: createCookieJar(cookie) });

describe("the remembered email of a code request", () => {
  let cookie: string;
  beforeEach(() => {
    vi.useFakeTimers();
    const context = contextOf(null);
    saveCodeRequest(context, "ada@example.com");
    [cookie = ""] = (context.jar.setCookieHeaders()[0] ?? "").split(";");
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test("the email for which a code was requested is remembered in a host-only, HttpOnly cookie", () => {
    const context = contextOf(null);
    saveCodeRequest(context, "ada@example.com");
    expect(context.jar.setCookieHeaders()).toEqual([
      expect.stringMatching(/^__Host-gh_code=[\w.-]+; Max-Age=3600; Path=\/; HttpOnly; Secure; SameSite=Lax$/),
    ]);
  });

  test.each([
    [60 * 60_000 - 1, "ada@example.com"],
    [60 * 60_000, null],
  ])("the remembered email is valid for an hour: after %d ms it is %s", (elapsedMs, expected) => {
    vi.advanceTimersByTime(elapsedMs);
    expect(readCodeRequest(contextOf(cookie))).toBe(expected);
  });

  test("the remembered email is not read from a cookie that we did not sign", () => {
    const [name = "", value = ""] = cookie.split("=");
    const [, signature = ""] = value.split(".");
    const until = Date.now() + 60_000;
    const other = Buffer.from(JSON.stringify({ email: "eve@example.com", until })).toString("base64url");
    for (const planted of ["", "x", ".", `${other}.${signature}`, `${other}.`, `${value}x`]) {
      expect(readCodeRequest(contextOf(`${name}=${planted}`)), planted).toBeNull();
    }
    expect(readCodeRequest({ ...contextOf(cookie), env: { SUPABASE_SECRET_KEY: "another" } })).toBeNull();
  });
});

test.each([
  ["123456", "123456"],
  ["1234567890", "1234567890"],
  [" 12345 67890 ", "1234567890"],
  ["12345", null],
  ["12345678901", null],
  ["12345a", null],
])("reads %j as the emailed code %j", (typed, code) => {
  expect(emailCodeSchema.safeParse({ code: typed }).data?.code ?? null).toBe(code);
});
