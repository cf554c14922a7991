import { describe, expect, test } from "vitest";
import { readCallerAddress } from "./caller-address.ts";

const secretKeys = ["sb_secret_of_the_project", "sb_secret_of_the_web_server"];

test.for([
  ["203.0.113.7", 1, "203.0.113.7"],
  ["198.51.100.1, 203.0.113.7", 1, "203.0.113.7"],
  ["198.51.100.1, 203.0.113.7", 2, "198.51.100.1"],
  ["192.0.2.1,198.51.100.1 , 203.0.113.7", 2, "198.51.100.1"],
  ["2001:db8::1", 1, "2001:db8::1"],
  ["2001:DB8:0:0::1", 1, "2001:db8::1"],
  ["::ffff:203.0.113.7", 1, "203.0.113.7"],
  ["::FFFF:cb00:7107", 1, "203.0.113.7"],
  ["0:0:0:0:0:ffff:203.0.113.7", 1, "203.0.113.7"],
  ["::1", 1, "::1"],
  ["fe80::1%eth0", 1, undefined],
  ["[2001:db8::1]:4711", 1, "2001:db8::1"],
  ["203.0.113.7", 2, undefined],
  ["203.0.113.7", 0, undefined],
  ["unknown", 1, undefined],
  ["203.0.113.7:4711", 1, "203.0.113.7"],
  ["203.0.113.7:", 1, undefined],
  ["203.0.113.7/0", 1, undefined],
  ["'; drop table", 1, undefined],
  ["198.51.100.1,", 1, undefined],
  ["", 1, undefined],
] as const)("for %j with %d trusted hops, the caller is %s", ([forwarded, trustedHops, address]) => {
  const headers = new Headers({ "x-forwarded-for": forwarded });
  expect(readCallerAddress(headers, { trustedHops, secretKeys })).toBe(address);
});

test("returns no caller address without an X-Forwarded-For header", () => {
  expect(readCallerAddress(new Headers(), { trustedHops: 1, secretKeys })).toBeUndefined();
});

describe("Caller address forwarded by the web server", () => {
  const of = (headers: Record<string, string>, keys = secretKeys) =>
    readCallerAddress(new Headers({ "x-forwarded-for": "198.51.100.1", ...headers }), {
      trustedHops: 1,
      secretKeys: keys,
    });

  test.for(secretKeys)("a forwarded caller address is accepted with any of the project's secret keys: %s", (apikey) => {
    expect(of({ "x-platform-forwarded-for": "203.0.113.7", apikey })).toBe("203.0.113.7");
    expect(of({ apikey })).toBe("198.51.100.1");
  });

  test("a forwarded caller address without a valid secret key is ignored, and the call has no address", () => {
    const claim = { "x-platform-forwarded-for": "203.0.113.7" };
    expect(of(claim)).toBeUndefined();
    expect(of({ ...claim, apikey: "sb_publishable" })).toBeUndefined();
    expect(of({ ...claim, apikey: secretKeys.join() })).toBeUndefined();
    expect(of({ ...claim, apikey: "" }, [""])).toBeUndefined();
    expect(of({ ...claim, apikey: "undefined" }, [])).toBeUndefined();
    expect(of({ "x-platform-forwarded-for": "nonsense", apikey: secretKeys[0] ?? "" })).toBeUndefined();
  });
});
