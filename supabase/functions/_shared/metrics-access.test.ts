import { expect, test } from "vitest";
import { z } from "zod";
import { createMetricsAccess, metricsSettings } from "./metrics-access.ts";

const token = "a-token-of-the-metrics-of-this-test";
const settings = z.object(metricsSettings);
const accessTo = (env: Record<string, string>) => createMetricsAccess(settings.parse(env));

test.for<[Record<string, string>, string | null, string | undefined, string]>([
  [{}, null, "127.0.0.1", "off"],
  [{}, `Bearer ${token}`, "127.0.0.1", "off"],
  [{ METRICS_TOKEN: token }, `Bearer ${token}`, undefined, "allowed"],
  [{ METRICS_TOKEN: token }, `bearer  ${token}`, undefined, "allowed"],
  [{ METRICS_TOKEN: token }, token, "127.0.0.1", "unauthorized"],
  [{ METRICS_TOKEN: token }, `Bearer ${token}x`, "127.0.0.1", "unauthorized"],
  [{ METRICS_TOKEN: token }, "Bearer ", "127.0.0.1", "unauthorized"],
  [{ METRICS_TOKEN: token }, null, "127.0.0.1", "unauthorized"],
  [{ METRICS_ADDRESSES: "10.0.0.0/8, 2001:db8::/32" }, null, "10.255.255.255", "allowed"],
  [{ METRICS_ADDRESSES: "10.0.0.0/8, 2001:db8::/32" }, null, "2001:db8::1", "allowed"],
  [{ METRICS_ADDRESSES: "10.0.0.0/8, 2001:db8::/32" }, null, "11.0.0.0", "off"],
  [{ METRICS_ADDRESSES: "10.0.0.0/8, 2001:db8::/32" }, null, "2001:db9::1", "off"],
  [{ METRICS_ADDRESSES: "192.0.2.7" }, null, "192.0.2.7", "allowed"],
  [{ METRICS_ADDRESSES: "192.0.2.7" }, null, "192.0.2.8", "off"],
  [{ METRICS_ADDRESSES: "192.0.2.7" }, null, undefined, "off"],
  [{ METRICS_TOKEN: token, METRICS_ADDRESSES: "192.0.2.7" }, `Bearer ${token}`, "192.0.2.7", "allowed"],
  [{ METRICS_TOKEN: token, METRICS_ADDRESSES: "192.0.2.7" }, `Bearer ${token}`, "192.0.2.8", "off"],
  [{ METRICS_TOKEN: token, METRICS_ADDRESSES: "192.0.2.7" }, null, "192.0.2.7", "unauthorized"],
])("with the settings %j, answers the authorization %j from %j with %s", ([env, authorization, address, verdict]) => {
  expect(accessTo(env)({ authorization, address })).toBe(verdict);
});

test.for<[Record<string, string>, RegExp]>([
  [{ METRICS_TOKEN: "x".repeat(31) }, /METRICS_TOKEN/],
  [{ METRICS_ADDRESSES: "10.0.0.0/33" }, /METRICS_ADDRESSES/],
  [{ METRICS_ADDRESSES: "::1/129" }, /METRICS_ADDRESSES/],
  [{ METRICS_ADDRESSES: "10.0.0.0/8,prometheus" }, /METRICS_ADDRESSES/],
  [{ METRICS_ADDRESSES: "10.0.0.1/8/8" }, /METRICS_ADDRESSES/],
])("refuses the settings %j", ([env, message]) => {
  expect(() => settings.parse(env)).toThrow(message);
});
