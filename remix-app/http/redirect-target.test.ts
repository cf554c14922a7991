import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { redirectTarget } from "./redirect-target.ts";

const origin = "https://app.example.com";
const fallback = "/home";
const context = { origin, isPage: () => true };
const sanitise = (input: unknown) => redirectTarget(input, { context, fallback });

const cases = 20_000;
/** Long enough for each test's many runs on a busy machine. */
const timeout = 30_000;
/** Uses only a few pieces, so that dot segments, slashes and hosts are often next to each other. */
const structure = fc
  .array(fc.constantFrom("/", "/", ".", "..", "./", "../", "%2e", "\\", "x", "evil.example", "\t"), { maxLength: 6 })
  .map((pieces) => `/${pieces.join("")}`);
/** Text made of pieces that have broken redirect checks before. */
const confusion = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        ..."/ // \\ . .. ./ ../ @ : ; ? # & = % %2f %2F %5c %00 %09 %0a %0d \t \n \r \u0000 \u00a0 \u2028 \ufeff".split(
          " ",
        ),
        ...["https:", "http:", "HTTPS:", "javascript:", "data:", "//", "evil.example", "localhost", "user@", " "],
        ...["app.example.com", "app.example.com.evil.example", "app.example.com@evil.example", origin, ":443", ":8443"],
        "\ud800",
        "ⓔ",
        "。",
      ),
      fc.string({ unit: "binary", maxLength: 4 }),
    ),
    { maxLength: 12 },
  )
  .map((pieces) => pieces.join(""));
const hostileText = fc.oneof(structure, confusion);

describe("a redirect target", () => {
  test("for any input, a browser resolves the sanitised redirect target to our own origin", { timeout }, () => {
    fc.assert(
      fc.property(hostileText, (input) => {
        const target = sanitise(input);
        expect(new URL(target, `${origin}/some/page`).origin).toBe(origin);
        expect(new URL(target, "http://other.example/").origin).toBe("http://other.example");
        expect(target).toMatch(/^\/(?![/\\])/);
        expect(target).not.toMatch(/[\s\\\p{Cc}]/u);
      }),
      { numRuns: cases },
    );
  });

  test("a sanitised redirect target does not change when it is sanitised again", { timeout }, () => {
    fc.assert(
      fc.property(hostileText, (input) => {
        const once = sanitise(input);
        expect(sanitise(once)).toBe(once);
      }),
      { numRuns: cases },
    );
  });

  test("keeps a redirect target that is an ordinary path on our origin", () => {
    const segment = fc.stringMatching(/^[a-z0-9_~-]{1,12}$/);
    fc.assert(
      fc.property(fc.array(segment, { maxLength: 5 }), fc.option(segment), (segments, query) => {
        const path = `/${segments.join("/")}${query === null ? "" : `?q=${query}`}`;
        expect(sanitise(path)).toBe(path);
        expect(sanitise(`${origin}${path}`)).toBe(path);
      }),
      { numRuns: 1_000 },
    );
  });

  test.each([
    ["https://evil.example/"],
    ["//evil.example"],
    ["/\\evil.example"],
    ["\\\\evil.example"],
    ["/.//evil.example"],
    ["/x/..//evil.example"],
    ["/%2e//evil.example"],
    ["/\t/evil.example"],
    ["\u0000/x"],
    ["/x\u0085"],
    ["javascript:alert(1)"],
    ["https:evil.example"],
    [`${origin}.evil.example/`],
    [`${origin}@evil.example/`],
    [`${origin}//evil.example`],
    ["https://user@app.example.com/"],
    ["relative"],
    [""],
    [null],
    [undefined],
    [42],
    [["/x"]],
  ])("falls back to the default redirect target instead of accepting %j", (input) => {
    expect(sanitise(input)).toBe(fallback);
  });

  test("uses the default redirect target if the path is not a page, even if the query or fragment names a page", () => {
    const pages = { origin, isPage: (pathname: string) => pathname === "/page" };
    for (const path of ["/logout", "/logout?x=/page", "/logout#/page", "/page/../logout", `${origin}/logout`]) {
      expect(redirectTarget(path, { context: pages, fallback })).toBe(fallback);
    }
    for (const path of ["/page", "/page?x=/logout#y", "/logout/../page"]) {
      expect(redirectTarget(path, { context: pages, fallback })).toMatch(/^\/page/);
    }
  });

  test("keeps encoded characters of a redirect target encoded", () => {
    expect(sanitise("/%2F%2Fevil.example")).toBe("/%2F%2Fevil.example");
    expect(sanitise("/a/../b?next=//evil.example#top")).toBe("/b?next=//evil.example#top");
  });

  test("a redirect target may have at most 2,048 characters", () => {
    expect(sanitise(`/${"a".repeat(2_047)}`)).toHaveLength(2_048);
    expect(sanitise(`/${"a".repeat(2_048)}`)).toBe(fallback);
    expect(sanitise(`/${"ü".repeat(2_000)}`)).toBe(fallback);
  });
});
