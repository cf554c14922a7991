import { expect, test } from "vitest";
import { tenantCacheKey } from "./prompt-cache-key.ts";

const [one, other] = ["0b6b1a3e-0000-4000-8000-000000000000", "0b6b1a3e-0000-4000-8000-000000000001"];

test("prefixes a prompt cache key with its workspace if both fit the provider's limit", () => {
  expect(tenantCacheKey(one, "k".repeat(27))).toBe(`${one}:${"k".repeat(27)}`);
  expect(tenantCacheKey(one, "k".repeat(28))).toMatch(new RegExp(`^${one}:[A-Za-z0-9_-]{27}$`));
});

test("hashes a prompt cache key that exceeds the provider's limit, so that equal keys stay equal and different keys stay different", () => {
  const [long, almost] = [`${"k".repeat(511)}a`, `${"k".repeat(511)}b`];
  expect(tenantCacheKey(one, long)).toBe(tenantCacheKey(one, long));
  expect(tenantCacheKey(one, long)).not.toBe(tenantCacheKey(one, almost));
  expect(tenantCacheKey(one, long)).not.toBe(tenantCacheKey(other, long));
});
