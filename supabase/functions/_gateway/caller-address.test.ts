import { expect, test } from "vitest";
import { callerAddress } from "./caller-address.ts";

test.for([
  ["203.0.113.7", 1, "203.0.113.7"],
  ["198.51.100.1, 203.0.113.7", 1, "203.0.113.7"],
  ["198.51.100.1, 203.0.113.7", 2, "198.51.100.1"],
  ["192.0.2.1,198.51.100.1 , 203.0.113.7", 2, "198.51.100.1"],
  ["2001:db8::1", 1, "2001:db8::1"],
  ["::ffff:203.0.113.7", 1, "203.0.113.7"],
  ["203.0.113.7", 2, undefined],
  ["203.0.113.7", 0, undefined],
  ["unknown", 1, undefined],
  ["203.0.113.7:4711", 1, undefined],
  ["'; drop table", 1, undefined],
  ["", 1, undefined],
] as const)("of %j with %d trusted hops the caller is %s", ([forwarded, hops, address]) => {
  expect(callerAddress(new Headers({ "x-forwarded-for": forwarded }), hops)).toBe(address);
});

test("without the header nobody is known", () => {
  expect(callerAddress(new Headers(), 1)).toBeUndefined();
});
