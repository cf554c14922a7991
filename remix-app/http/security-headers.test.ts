import { expect, test } from "vitest";
import { securityHeaders } from "./security-headers.ts";

const base = { nonce: "n0", formTargets: new Set<string>(), https: true, development: false };

test("the policy names the nonce, and the exact targets of the page's forms", () => {
  const policy = securityHeaders({ ...base, formTargets: new Set(["https://idp.example"]) })["Content-Security-Policy"];
  expect(policy).toContain("script-src 'self' 'nonce-n0';");
  expect(policy).toContain("form-action 'self' https://idp.example");
  expect(policy).not.toContain("unsafe");
});

test("transport security is promised on https alone", () => {
  expect(securityHeaders(base)).toHaveProperty("Strict-Transport-Security");
  expect(securityHeaders({ ...base, https: false })).not.toHaveProperty("Strict-Transport-Security");
});
