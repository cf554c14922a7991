import { describe, expect, test } from "vitest";
import { createCookieJar } from "../http/cookies.ts";
import { lastUsedFirst, readLastUsedMethod, rememberMethod } from "./last-used-method.ts";

const https = "https://app.example.com";

function remember(...methods: string[]) {
  const jar = createCookieJar(null);
  for (const method of methods) rememberMethod({ jar, origin: https }, method);
  return { jar, last: readLastUsedMethod({ jar, origin: https }) };
}

describe("the last used sign-in method", () => {
  test.each([
    [["password"], "password"],
    [["passkey"], "passkey"],
    [["oauth:google"], "oauth:google"],
    [["sign_up"], "password"],
    [["password_reset"], "password"],
    [["oauth:google", "email_link"], "oauth:google"],
    [["email_link"], null],
    [["password", "email_code"], "email_code"],
    [["passkey", "password"], "password"],
  ])("after sign-ins with %j, the last used method is %s", (methods, last) => {
    expect(remember(...methods).last).toBe(last);
  });

  test("the last used sign-in method is in a host-only, HttpOnly cookie", () => {
    const { jar } = remember("oauth:google");
    expect(jar.setCookieHeaders()).toEqual([
      "__Host-gh_last_method=oauth%3Agoogle; Max-Age=31536000; Path=/; HttpOnly; Secure; SameSite=Lax",
    ]);
  });

  test.each(["ada@example.com", "<script>", "", `oauth:${"x".repeat(33)}`])(
    "the last used sign-in method is unknown if its cookie has the invalid value %j",
    (value) => {
      const jar = createCookieJar(null);
      jar.set("__Host-gh_last_method", value);
      expect(readLastUsedMethod({ jar, origin: https })).toBeNull();
    },
  );

  test("the last used sign-in method moves to the front, and the others keep their order", () => {
    expect(lastUsedFirst(["a", "b", "c"], (item) => item === "c")).toEqual(["c", "a", "b"]);
    expect(lastUsedFirst(["a", "b", "c"], () => false)).toEqual(["a", "b", "c"]);
  });
});
