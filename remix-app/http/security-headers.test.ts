import { expect, test } from "vitest";
import { securityHeaders } from "./security-headers.ts";

const base = {
  nonce: "n0",
  formTargets: new Set<string>(),
  widgets: new Set<string>(),
  https: true,
  development: false,
};

test("the CSP contains the nonce and the exact targets of the page's forms", () => {
  const policy = securityHeaders({ ...base, formTargets: new Set(["https://idp.example"]) })["Content-Security-Policy"];
  expect(policy).toContain("script-src 'self' 'nonce-n0';");
  expect(policy).toContain("form-action 'self' https://idp.example");
  expect(policy).not.toContain("unsafe");
  expect(policy).toContain("media-src 'self' blob: data:;");
});

test("sends Strict-Transport-Security on https only", () => {
  expect(securityHeaders(base)).toHaveProperty("Strict-Transport-Security");
  expect(securityHeaders({ ...base, https: false })).not.toHaveProperty("Strict-Transport-Security");
});

test("allows a widget's scripts and frames only on pages with the widget", () => {
  const policyFor = (widgets: Set<string>) => securityHeaders({ ...base, widgets })["Content-Security-Policy"];
  const policy = policyFor(new Set(["https://challenges.example"]));
  expect(policy).toContain("script-src 'self' 'nonce-n0' https://challenges.example;");
  expect(policy).toContain("frame-src https://challenges.example;");
  expect(policyFor(new Set())).not.toContain("frame-src");
});
