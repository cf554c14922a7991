import { describe, expect, test } from "vitest";
import { isAllowedOrigin } from "./same-origin.ts";

const own = "https://app.example.com";
const request = (method: string, headers: Record<string, string> = {}) => new Request(own, { method, headers });

describe("a request that changes state", () => {
  test.each(["POST", "PUT", "PATCH", "DELETE"])("a %s request must come from our origin", (method) => {
    expect(isAllowedOrigin(request(method), [own])).toBe(false);
    expect(isAllowedOrigin(request(method, { origin: own }), [own])).toBe(true);
    expect(isAllowedOrigin(request(method, { "sec-fetch-site": "same-origin" }), [own])).toBe(true);
  });

  test.each(["same-site", "cross-site", "none", "", "SAME-ORIGIN"])(
    "refuses a request that changes state if its Sec-Fetch-Site header is %j",
    (site) => {
      expect(isAllowedOrigin(request("POST", { "sec-fetch-site": site, origin: own }), [own])).toBe(false);
    },
  );

  test.each([
    "null",
    "https://evil.example",
    "http://app.example.com",
    `${own}:8443`,
    `${own}.evil.example`,
    `${own}/`,
  ])("refuses a request that changes state with Origin %s", (origin) => {
    expect(isAllowedOrigin(request("POST", { origin }), [own])).toBe(false);
  });

  test("refuses a foreign origin even if Host or X-Forwarded-Host names it", () => {
    const headers = { origin: "https://evil.example", "x-forwarded-host": "evil.example", host: "evil.example" };
    expect(isAllowedOrigin(request("POST", headers), [own])).toBe(false);
  });

  test("allows a request that changes state from any configured origin", () => {
    expect(isAllowedOrigin(request("POST", { origin: "https://b.example" }), [own, "https://b.example"])).toBe(true);
  });

  test("accepts a Bearer token from any origin, because browsers never attach it by themselves", () => {
    expect(isAllowedOrigin(request("POST", { authorization: "Bearer a.b.c" }), [own])).toBe(true);
  });

  test.each(["", "Bearer", "Bearer x", "Basic YTpi", "Digest a.b.c"])(
    "a request with Authorization %j must still come from our origin",
    (given) => {
      expect(isAllowedOrigin(request("POST", { authorization: given }), [own])).toBe(false);
      expect(isAllowedOrigin(request("POST", { authorization: given, "sec-fetch-site": "cross-site" }), [own])).toBe(
        false,
      );
    },
  );
});

test.each(["GET", "HEAD", "OPTIONS"])("accepts %s requests from any origin", (method) => {
  expect(isAllowedOrigin(request(method, { "sec-fetch-site": "cross-site" }), [own])).toBe(true);
});
