import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createCookieJar } from "./cookies.ts";

describe("a cookie jar", () => {
  test("opens whatever a caller sends as a Cookie header", () => {
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

  test("takes the first of a cookie sent twice", () => {
    expect(createCookieJar("a=own; a=tossed").get("a")).toBe("own");
  });

  test("reads back what was set, and answers the last write of each scope", () => {
    const jar = createCookieJar("a=1");
    jar.set("a", "2", { httpOnly: true });
    jar.set("a", "3", { httpOnly: true });
    jar.set("a", "", { domain: "example.com", maxAge: 0 });
    expect(jar.setCookieHeaders()).toEqual(["a=3; Path=/; HttpOnly", "a=; Max-Age=0; Domain=example.com; Path=/"]);
  });

  test("forgets a cookie that was expired", () => {
    const jar = createCookieJar("a=1; b=2");
    jar.set("a", "", { maxAge: 0 });
    expect(jar.getAll()).toEqual([{ name: "b", value: "2" }]);
  });
});
