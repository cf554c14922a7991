import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { providerMetadata } from "./discovery.ts";

const guide = readFileSync("docs/openid.md", "utf8");
const sql = readFileSync("supabase/schemas/openid/authorization.sql", "utf8");
const rule = /create or replace function private\.openid_authentication_of\(.*?\$\$(.*?)\$\$/s.exec(sql)?.[1] ?? "";

test("the guide lists exactly the amr values that a login can carry", () => {
  const issued = [...rule.matchAll(/then '([a-z]{3})'/g)].map(([, value]) => value);
  const table = /### amr\n(.*?)\n## /s.exec(guide)?.[1] ?? "";
  const listed = [...table.matchAll(/^\| `([a-z]+)` \|/gm)].map(([, value]) => value);
  expect(listed.toSorted()).toEqual([...new Set(issued)].toSorted());
  expect(listed.length).toBeGreaterThan(4);
});

test("the guide names the acr values that the discovery document advertises", () => {
  const { acr_values_supported: values } = providerMetadata("https://app.example.com", { allowsRegistration: false });
  expect([...rule.matchAll(/'(aal\d)'/g)].map(([, value]) => value)).toEqual(values);
  for (const value of values) expect(guide).toContain(`\`${value}\``);
});
