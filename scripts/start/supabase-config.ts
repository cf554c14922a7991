import { StackError } from "@gatehousehq/local-stack/errors";

/** Features of Supabase Auth that the local identity server lacks, by section and key of `supabase/config.toml`. */
const lacking =
  /^auth\.(enable_anonymous_sign_ins|sms\.(enabled|enable_signup)|mfa\.(phone|web_authn)\.\w+_enabled|(web3|third_party)\.\w+\.enabled|oauth_server\.enabled|hook\.(?!password_verification_attempt|mfa_verification_attempt)\w+\.enabled)$/;

/**
 * Refuses a `config.toml` that enables features that only Supabase Auth's own binary has, since the embedded stack
 * would ignore them.
 * @throws StackError that names each setting
 */
export function refuseLackingFeatures(config: string): void {
  let section = "";
  const found: string[] = [];
  for (const line of config.split("\n")) {
    section = /^\s*\[([\w.-]+)\]/.exec(line)?.[1] ?? section;
    const [, key] = /^\s*(\w+)\s*=\s*true\b/.exec(line) ?? [];
    if (key && lacking.test(`${section}.${key}`)) found.push(`${key} in [${section}]`);
  }
  if (found.length === 0) return;
  throw new StackError(
    [
      "supabase/config.toml turns on what the local identity server lacks:",
      ...found.map((name) => `  ${name}`),
      "Turn it off, set IDENTITY_BIN to a Supabase Auth, or use `npm run dev -- --supabase`.",
    ].join("\n"),
  );
}
