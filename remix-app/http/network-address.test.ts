import { expect, test } from "vitest";
import { isNetworkAddress } from "./network-address.ts";

test.for([
  ["192.0.2.7", true],
  ["192.0.2.7/32", true],
  ["192.0.2.0/24", true],
  ["0.0.0.0/0", true],
  ["192.0.2.128/25", true],
  ["2001:db8::", true],
  ["2001:db8::/32", true],
  ["2001:DB8:0:1::/64", true],
  ["::/0", true],
  ["::1/128", true],
  ["192.0.2.7/24", false],
  ["192.0.2.0/33", false],
  ["192.0.2.0/024", false],
  ["192.0.2/24", false],
  ["192.0.2.0/", false],
  ["2001:db8::1/64", false],
  ["2001:db8::/129", false],
  ["::ffff:192.0.2.7", false],
  ["::ffff:c000:207", false],
  ["fe80::1%eth0", false],
  ["example.com", false],
  ["192.0.2.7 ", false],
  ["", false],
] as const)("whether %j is a network address: %s", ([text, taken]) => {
  expect(isNetworkAddress(text)).toBe(taken);
});
