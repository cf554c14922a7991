import { z } from "zod";
import { backendMailSeconds } from "../../../remix-app/http/backend-mail-lifetime.ts";
import { type AuthConfig, notShown } from "./auth-config.ts";
import { type Finding, fail, ok, unseen, warn } from "./finding.ts";

const about = "passwords";
const dashboard = "Dashboard, Authentication, Sign In / Providers, Email";
/** The minimum length on our pages (remix-app/session/credentials.ts) and in supabase/config.toml. */
const minLength = 8;
/** The value in supabase/config.toml. Only the number of digits keeps direct callers from guessing emailed codes. */
const codeDigits = 10;

const look =
  `Look at ${dashboard}: minimum length ${minLength}, no required characters, email OTP length ` +
  `${codeDigits} and expiration ${backendMailSeconds}, and on: confirm email, secure password change, prevent use of leaked passwords.`;

/**
 * The identity backend's settings for passwords and sign-ups, which also apply to callers that bypass our pages.
 * `names` has the name under which each setting is configured.
 */
interface PasswordSettings {
  minLength: number;
  requiredCharacters: string;
  refusesLeaked: boolean;
  asksAgain: boolean;
  confirmsAlone: boolean;
  letsUnconfirmedIn: boolean;
  codeDigits: number;
  codeLifetimeSeconds: number;
  names: Record<Exclude<keyof PasswordSettings, "names">, string>;
}

/**
 * A project's Auth settings, named as in https://supabase.com/docs/reference/api/v1-get-auth-service-config. Null means
 * Supabase Auth's default.
 */
const projectSettings = z.object({
  password_min_length: z.number().nullable(),
  password_required_characters: z.string().nullable(),
  password_hibp_enabled: z.boolean().nullable(),
  security_update_password_require_reauthentication: z.boolean().nullable(),
  mailer_autoconfirm: z.boolean().nullable(),
  mailer_allow_unverified_email_sign_ins: z.boolean().nullish(),
  mailer_otp_length: z.number().nullish(),
  mailer_otp_exp: z.number().nullish(),
});
/** Supabase Auth's own defaults. */
const defaultMinLength = 6;
const defaultCodeDigits = 6;
const defaultCodeLifetimeSeconds = 86_400;

/** Checks the identity backend's own requirements for passwords and sign-ups, since direct callers bypass our pages. */
export function checkPasswords(config: AuthConfig): Finding[] {
  if (config.from === "local") return [ok(about, "a local stack starts its backend with the release's settings")];
  if (config.from === "nowhere") return [unseen(about, `${config.why}. ${look}`)];
  if (config.from === "environment") {
    // Supabase Auth requires this setting. If it is missing, the doctor was not given the backend's settings.
    if (config.values.GOTRUE_JWT_SECRET) return judge(ofEnvironment(config.values));
    return [unseen(about, "not shown by the backend. Self-hosted: name its settings too (--env).")];
  }
  const found = projectSettings.safeParse(config.values);
  return found.success ? judge(ofProject(found.data)) : [unseen(about, `${notShown(config.project).why}. ${look}`)];
}

function ofProject(found: z.infer<typeof projectSettings>): PasswordSettings {
  return {
    minLength: found.password_min_length ?? defaultMinLength,
    requiredCharacters: found.password_required_characters ?? "",
    refusesLeaked: found.password_hibp_enabled ?? false,
    asksAgain: found.security_update_password_require_reauthentication ?? false,
    confirmsAlone: found.mailer_autoconfirm ?? false,
    letsUnconfirmedIn: found.mailer_allow_unverified_email_sign_ins ?? false,
    codeDigits: found.mailer_otp_length ?? defaultCodeDigits,
    codeLifetimeSeconds: found.mailer_otp_exp || defaultCodeLifetimeSeconds,
    names: {
      minLength: `password_min_length (${dashboard}, Minimum password length)`,
      requiredCharacters: `password_required_characters (${dashboard}, Password requirements)`,
      refusesLeaked: `password_hibp_enabled (${dashboard}, Prevent use of leaked passwords; from the Pro plan on)`,
      asksAgain: `security_update_password_require_reauthentication (${dashboard}, Secure password change)`,
      confirmsAlone: `mailer_autoconfirm (Dashboard, Authentication, Sign In / Providers, Confirm email)`,
      letsUnconfirmedIn: "mailer_allow_unverified_email_sign_ins (the Management API alone)",
      codeDigits: `mailer_otp_length (${dashboard}, Email OTP Length)`,
      codeLifetimeSeconds: `mailer_otp_exp (${dashboard}, Email OTP Expiration)`,
    },
  };
}

function ofEnvironment(values: Record<string, string | undefined>): PasswordSettings {
  // Matches Go's strconv.ParseBool.
  const isOn = (name: string) => /^(1|t|true)$/i.test(values[name] ?? "");
  return {
    minLength: Number(values.GOTRUE_PASSWORD_MIN_LENGTH || defaultMinLength),
    requiredCharacters: values.GOTRUE_PASSWORD_REQUIRED_CHARACTERS ?? "",
    refusesLeaked: isOn("GOTRUE_PASSWORD_HIBP_ENABLED"),
    asksAgain: isOn("GOTRUE_SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION"),
    confirmsAlone: isOn("GOTRUE_MAILER_AUTOCONFIRM"),
    letsUnconfirmedIn: isOn("GOTRUE_MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS"),
    codeDigits: Number(values.GOTRUE_MAILER_OTP_LENGTH || defaultCodeDigits),
    codeLifetimeSeconds: Number(values.GOTRUE_MAILER_OTP_EXP) || defaultCodeLifetimeSeconds,
    names: {
      minLength: "GOTRUE_PASSWORD_MIN_LENGTH",
      requiredCharacters: "GOTRUE_PASSWORD_REQUIRED_CHARACTERS",
      refusesLeaked: "GOTRUE_PASSWORD_HIBP_ENABLED",
      asksAgain: "GOTRUE_SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION",
      confirmsAlone: "GOTRUE_MAILER_AUTOCONFIRM",
      letsUnconfirmedIn: "GOTRUE_MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS",
      codeDigits: "GOTRUE_MAILER_OTP_LENGTH",
      codeLifetimeSeconds: "GOTRUE_MAILER_OTP_EXP",
    },
  };
}

function judge({ names, ...found }: PasswordSettings): Finding[] {
  const findings: Finding[] = [];
  if (!(found.minLength >= minLength)) {
    findings.push(
      fail(
        about,
        `direct callers may choose ${Number.isNaN(found.minLength) ? "too few" : found.minLength} characters. Set ${names.minLength} to ${minLength}.`,
      ),
    );
  } else if (found.minLength > minLength) {
    findings.push(
      warn(
        about,
        `our pages ask for ${minLength} characters, the backend for ${found.minLength}. Set ${names.minLength} to ${minLength}.`,
      ),
    );
  }
  if (found.requiredCharacters !== "") {
    findings.push(
      warn(about, `the backend requires characters that our pages do not name. Empty ${names.requiredCharacters}.`),
    );
  }
  if (!found.refusesLeaked) {
    findings.push(warn(about, `direct callers may choose stolen passwords. Turn on ${names.refusesLeaked}.`));
  }
  if (!found.asksAgain) {
    findings.push(fail(about, `a stolen session may change the password at any time. Turn on ${names.asksAgain}.`));
  }
  if (found.confirmsAlone) {
    findings.push(
      fail(about, `a sign-up counts without a confirmation of its email. Turn off ${names.confirmsAlone}.`),
    );
  }
  if (found.letsUnconfirmedIn) {
    findings.push(fail(about, `people sign in before they confirm their email. Turn off ${names.letsUnconfirmedIn}.`));
  }
  // For any length out of range, Supabase Auth uses its default.
  if (found.codeDigits !== codeDigits) {
    findings.push(
      fail(
        about,
        `mailed sign-in codes have fewer than ${codeDigits} digits. Set ${names.codeDigits} to ${codeDigits}.`,
      ),
    );
  }
  if (found.codeLifetimeSeconds > backendMailSeconds) {
    findings.push(
      warn(
        about,
        `mailed codes and links work for ${found.codeLifetimeSeconds} seconds. Set ${names.codeLifetimeSeconds} to ${backendMailSeconds}.`,
      ),
    );
  }
  return findings.length > 0 ? findings : [ok(about, "the backend demands what our pages demand")];
}
