import { createServerClient } from "@supabase/ssr";
import { describe, expect, test } from "vitest";
import { createCookieJar } from "../http/cookies.ts";
import {
  clearSessionCookie,
  maxSessionCookieBytes,
  readSessionCookie,
  type SessionCookieScope,
  type StoredSession,
  sessionCookieScope,
  writeSessionCookie,
} from "./cookies.ts";

const supabaseUrl = "https://ref.supabase.co";
const farFuture = 4_102_444_800;
const session = (tokenLength = 900): StoredSession => ({
  access_token: "a".repeat(tokenLength),
  refresh_token: "refresh",
  expires_at: farFuture,
  expires_in: 3600,
  token_type: "bearer",
});
const hostOnly: SessionCookieScope = { name: "sb-ref-auth-token", secure: true };
const shared: SessionCookieScope = { ...hostOnly, domain: "example.com" };

/** Returns the Cookie header of a browser that received these Set-Cookie values. */
const sentBack = (setCookies: string[]) =>
  setCookies
    .filter((value) => !value.includes("Max-Age=0"))
    .map((value) => value.split(";")[0])
    .join("; ");

describe("the auth cookie's scope", () => {
  test.each([
    ["https://example.com", "example.com"],
    ["https://app.example.com", "example.com"],
    ["https://notexample.com", undefined],
    ["https://example.com.evil.example", undefined],
    ["http://localhost:3000", undefined],
    ["https://preview-7.hosting.example", undefined],
  ])("the auth cookie at %s has the domain %s", (origin, domain) => {
    const scope = sessionCookieScope({ supabaseUrl, parentDomain: "example.com", origin });
    expect(scope.domain).toBe(domain);
    expect(scope.secure).toBe(origin.startsWith("https:"));
    expect(scope.name).toBe("sb-ref-auth-token");
  });

  test("the auth cookie is host-only without a parent domain", () => {
    expect(sessionCookieScope({ supabaseUrl, origin: "https://app.example.com" })).not.toHaveProperty("domain");
  });
});

describe("the auth cookie", () => {
  test.each([100, 900, 2_300, 2_400, 4_300])(
    "the auth cookie is read back as written, with a token of %i characters",
    async (length) => {
      const jar = createCookieJar(null);
      writeSessionCookie(jar, hostOnly, session(length));
      const back = createCookieJar(sentBack(jar.setCookieHeaders()));
      expect(await readSessionCookie(back, hostOnly)).toEqual(session(length));
      for (const value of jar.setCookieHeaders()) {
        expect(value).toMatch(/; Max-Age=34560000;.* Path=\/;.*HttpOnly;.*Secure;.*SameSite=Lax/);
        expect(value).not.toContain("Domain");
      }
    },
  );

  test("the auth cookie can also be read by @supabase/ssr", async () => {
    const jar = createCookieJar(null);
    writeSessionCookie(jar, hostOnly, session());
    const client = createServerClient(supabaseUrl, "sb_publishable_x", {
      cookies: { encode: "tokens-only", getAll: () => jar.getAll(), setAll: () => undefined },
    });
    const { data } = await client.auth.getSession();
    expect(data.session?.access_token).toBe(session().access_token);
    expect(data.session?.refresh_token).toBe("refresh");
  });

  test("writing the auth cookie expires leftover parts of an earlier cookie, and host-only duplicates", () => {
    const jar = createCookieJar("sb-ref-auth-token.0=x; sb-ref-auth-token.1=y; sb-ref-auth-token=z");
    writeSessionCookie(jar, shared, session());
    const expired = jar.setCookieHeaders().filter((value) => value.includes("Max-Age=0"));
    for (const name of ["sb-ref-auth-token.0=", "sb-ref-auth-token.1="]) {
      const variants = expired.filter((value) => value.startsWith(name));
      expect(variants.map((value) => value.includes("Domain=example.com")).sort()).toEqual([false, true]);
    }
    expect(expired.filter((value) => value.startsWith("sb-ref-auth-token=")).length).toBe(1);
    expect(jar.setCookieHeaders().at(-1)).toContain("Domain=example.com");
  });

  test("clearing the auth cookie expires each of its parts, both for the parent domain and host-only", async () => {
    const jar = createCookieJar("sb-ref-auth-token.0=x; sb-ref-auth-token.1=y; other=z");
    clearSessionCookie(jar, shared);
    const headers = jar.setCookieHeaders();
    expect(headers).toHaveLength(6);
    expect(headers.every((value) => value.includes("Max-Age=0"))).toBe(true);
    expect(await readSessionCookie(jar, shared)).toBeNull();
    expect(jar.get("other")).toBe("z");
  });

  test.each([
    ["invalid base64", "base64-%%%"],
    ["invalid JSON", `base64-${Buffer.from("nope").toString("base64url")}`],
    ["no tokens", `base64-${Buffer.from("{}").toString("base64url")}`],
    ["a value without the prefix", "plain"],
    ["nothing", ""],
  ])("the auth cookie is ignored if it holds %s", async (_, value) => {
    expect(await readSessionCookie(createCookieJar(`sb-ref-auth-token=${value}`), hostOnly)).toBeNull();
  });
});

test("a session that is too large is not written, and the existing cookie is cleared", async () => {
  const bytesOf = (tokenLength: number) => {
    const jar = createCookieJar(null);
    writeSessionCookie(jar, hostOnly, session(tokenLength));
    return jar.getAll().reduce((sum, { value }) => sum + value.length, 0);
  };
  let largest = 4_000;
  while (bytesOf(largest + 1) > 0) largest += 1;
  expect(bytesOf(largest)).toBeGreaterThan(maxSessionCookieBytes - 4);
  expect(bytesOf(largest)).toBeLessThanOrEqual(maxSessionCookieBytes);

  const jar = createCookieJar(`${hostOnly.name}.0=a; ${hostOnly.name}.1=b`);
  writeSessionCookie(jar, hostOnly, session(largest + 1));
  expect(jar.getAll()).toEqual([]);
  expect(jar.setCookieHeaders().every((header) => header.includes("Max-Age=0"))).toBe(true);
});
