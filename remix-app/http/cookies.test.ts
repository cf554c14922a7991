import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type CookieDefinition, cookies } from "./cookie-table.ts";
import { clearCookie, createCookieJar, readCookie, writeCookie } from "./cookies.ts";

describe("a cookie jar", () => {
  test("accepts any Cookie header that a caller sends", () => {
    const pieces = fc.constantFrom(
      "a",
      "=",
      ";",
      " ",
      "%",
      "%zz",
      '"',
      "\\",
      ",",
      "__proto__",
      "sb-x-auth-token.0",
      "é",
    );
    fc.assert(
      fc.property(fc.array(fc.oneof(pieces, fc.string({ maxLength: 6 })), { maxLength: 20 }), (parts) => {
        const jar = createCookieJar(parts.join(""));
        for (const { name, value } of jar.getAll()) expect(jar.get(name)).toBe(value);
        expect(jar.setCookieHeaders()).toEqual([]);
      }),
      { numRuns: 10_000 },
    );
  });

  test("takes the first value of a cookie sent twice", () => {
    expect(createCookieJar("a=own; a=tossed").get("a")).toBe("own");
  });

  test("reads back cookies that were set, and sends only the last write for each name and domain", () => {
    const jar = createCookieJar("a=1");
    jar.set("a", "2", { httpOnly: true });
    jar.set("a", "3", { httpOnly: true });
    jar.set("a", "", { domain: "example.com", maxAge: 0 });
    expect(jar.setCookieHeaders()).toEqual(["a=3; Path=/; HttpOnly", "a=; Max-Age=0; Domain=example.com; Path=/"]);
  });

  test("no longer returns a cookie that was cleared", () => {
    const jar = createCookieJar("a=1; b=2");
    jar.set("a", "", { maxAge: 0 });
    expect(jar.getAll()).toEqual([{ name: "b", value: "2" }]);
  });
});

describe("our cookies", () => {
  const at = (origin: string) => ({ jar: createCookieJar(null), origin });
  const all: CookieDefinition[] = Object.values(cookies);

  test("our cookies have unique names, and those with __Host- have the path that browsers require", () => {
    expect(new Set(all.map(({ name }) => name)).size).toBe(all.length);
    for (const { prefix, path } of all) if (prefix === "__Host-") expect(path).toBe("/");
  });

  test("our cookies have their prefix and Secure on https, and neither on plain http", () => {
    const [secure, plain] = [at("https://app.example.com"), at("http://localhost:3000")];
    for (const context of [secure, plain]) {
      writeCookie(context, cookies.device, { value: "x" });
      expect(readCookie(context, cookies.device)).toBe("x");
    }
    expect(secure.jar.setCookieHeaders()).toEqual([
      "__Host-gh_device=x; Max-Age=34560000; Path=/; HttpOnly; Secure; SameSite=Lax",
    ]);
    expect(plain.jar.setCookieHeaders()).toEqual(["gh_device=x; Max-Age=34560000; Path=/; HttpOnly; SameSite=Lax"]);
  });

  test("clears our cookies for this host, and cookies without the __Host- prefix also for the parent domain", () => {
    const context = at("https://app.example.com");
    for (const cookie of [cookies.device, cookies.qrChallenge]) clearCookie(context, cookie, "example.com");
    expect(context.jar.setCookieHeaders()).toEqual([
      "__Host-gh_device=; Max-Age=0; Path=/; HttpOnly; Secure; SameSite=Lax",
      "gh_qr=; Max-Age=0; Path=/qr; HttpOnly; Secure; SameSite=Strict",
      "gh_qr=; Max-Age=0; Domain=example.com; Path=/qr; HttpOnly; Secure; SameSite=Strict",
    ]);
  });
});
