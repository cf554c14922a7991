import { describe, expect, test } from "vitest";
import { clientAddress } from "./request-facts.ts";

const remoteAddress = "10.0.0.9";
const address = (forwarded: string | null, trustedProxyHops: number, peer = remoteAddress) =>
  clientAddress(new Headers(forwarded === null ? {} : { "x-forwarded-for": forwarded }), {
    remoteAddress: peer,
    trustedProxyHops,
  });

describe("the client address", () => {
  test("without a trusted proxy, the client address is the peer's, even with a forwarding header", () => {
    expect(address("6.6.6.6", 0)).toBe(remoteAddress);
  });

  test("the client address is the entry that the outermost trusted proxy added, never an entry before it", () => {
    expect(address("6.6.6.6, 203.0.113.7", 1)).toBe("203.0.113.7");
    expect(address("6.6.6.6, 203.0.113.7, 10.0.0.1", 2)).toBe("203.0.113.7");
  });

  test("the client address falls back to the nearest known address if the header is too short, missing or invalid", () => {
    expect(address("203.0.113.7", 3)).toBe("203.0.113.7");
    expect(address(null, 1)).toBe(remoteAddress);
    expect(address("unknown", 1)).toBe(remoteAddress);
    expect(address("203.0.113.7:x", 1)).toBe(remoteAddress);
  });

  test("the client address excludes the port that some proxies add", () => {
    expect(address("6.6.6.6:1, 203.0.113.7:1234", 1)).toBe("203.0.113.7");
    expect(address("[2001:db8::1]:1234", 1)).toBe("2001:db8::1");
  });

  test("writes an IPv4 address that is mapped to IPv6 as IPv4", () => {
    expect(address(null, 0, "::ffff:203.0.113.7")).toBe("203.0.113.7");
    expect(address("2001:db8::1", 1)).toBe("2001:db8::1");
  });
});
