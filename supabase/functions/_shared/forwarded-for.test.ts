import { expect, test } from "vitest";
import { withoutPort } from "./forwarded-for.ts";

// Azure Application Gateway adds the port (learn.microsoft.com/azure/application-gateway/how-application-gateway-works).
test.each([
  ["192.0.2.1", "192.0.2.1"],
  ["192.0.2.1:1234", "192.0.2.1"],
  ["[2001:db8::1]:1234", "2001:db8::1"],
  ["[2001:db8::1]", "2001:db8::1"],
  ["2001:db8::1", "2001:db8::1"],
  ["2001:db8::1:1234", "2001:db8::1:1234"],
  ["::ffff:192.0.2.1", "::ffff:192.0.2.1"],
  ["unknown", "unknown"],
])("reads the address in the X-Forwarded-For entry %s as %s", (entry, address) => {
  expect(withoutPort(entry)).toBe(address);
});
