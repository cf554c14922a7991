import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { refuseLackingFeatures } from "./supabase-config.ts";

const config = readFileSync("supabase/config.toml", "utf8");

test("the checkout's config.toml enables nothing that the local identity server lacks", () => {
  expect(() => refuseLackingFeatures(config)).not.toThrow();
});

test.each([
  ["auth", "enable_anonymous_sign_ins"],
  ["auth.sms", "enabled"],
  ["auth.sms", "enable_signup"],
  ["auth.mfa.phone", "enroll_enabled"],
  ["auth.mfa.phone", "verify_enabled"],
  ["auth.mfa.web_authn", "enroll_enabled"],
  ["auth.web3.solana", "enabled"],
  ["auth.third_party.firebase", "enabled"],
  ["auth.oauth_server", "enabled"],
  ["auth.hook.custom_access_token", "enabled"],
  ["auth.hook.send_email", "enabled"],
])("refuses a config.toml in which section [%s] sets %s to true, and names the setting", (section, key) => {
  const refuse = (line: string) => () => refuseLackingFeatures(`${config}\n[${section}]\n${line}\n`);
  expect(refuse(`${key} = true # on`)).toThrow(`\n  ${key} in [${section}]\n`);
  expect(refuse(`${key}=true`)).toThrow(`\n  ${key} in [${section}]\n`);
  expect(refuse(`${key} = false`)).not.toThrow();
  expect(refuse(`# ${key} = true`)).not.toThrow();
});
