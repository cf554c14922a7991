import { z } from "zod";
import { type AuthConfig, notShown } from "./auth-config.ts";
import { type Finding, fail, ok, unseen, warn } from "./finding.ts";

/**
 * The shortest recommended interval between two emails, as in supabase/config.toml. Each email invalidates the link in
 * the previous one (docs/abuse.md).
 */
const leastSeconds = 180;
/** An interval shorter than Supabase's default of 60 seconds is unsafe. */
const unsafeSeconds = 60;

const hooks = [
  { name: "password verification attempt", key: "password_verification_attempt" },
  { name: "MFA verification attempt", key: "mfa_verification_attempt" },
] as const;

/** The identity backend's own settings that the doctor judges. */
type BackendSettings = {
  mailIntervalSeconds: number | null;
  /** The URI of each enabled hook for sign-in attempts, by the hook's key. */
  hookUris: Record<string, string | null>;
};

/** GET /v1/projects/{ref}/config/auth of the Management API; null means unset. */
const hostedSettings = z
  .looseObject({
    smtp_max_frequency: z.number().nullable(),
    hook_password_verification_attempt_enabled: z.boolean().nullable(),
    hook_password_verification_attempt_uri: z.string().nullable(),
    hook_mfa_verification_attempt_enabled: z.boolean().nullable(),
    hook_mfa_verification_attempt_uri: z.string().nullable(),
  })
  .transform(
    (read): BackendSettings => ({
      mailIntervalSeconds: read.smtp_max_frequency,
      hookUris: {
        password_verification_attempt: read.hook_password_verification_attempt_enabled
          ? read.hook_password_verification_attempt_uri
          : null,
        mfa_verification_attempt: read.hook_mfa_verification_attempt_enabled
          ? read.hook_mfa_verification_attempt_uri
          : null,
      },
    }),
  );

/** Checks the identity backend's minimum interval between emails, and its hooks for password and MFA attempts. */
export function checkBackendSettings(config: AuthConfig): Finding[] {
  if (config.from === "local") return [];
  const found = readSettings(config);
  if (typeof found === "string") return [unseen("mail interval", found), unseen("hooks", found)];
  return [judgeMailInterval(found.mailIntervalSeconds), ...judgeHooks(found.hookUris)];
}

/** @returns the settings, or why they are not shown */
function readSettings(config: Exclude<AuthConfig, { from: "local" }>): BackendSettings | string {
  if (config.from === "nowhere") return `${config.why}.`;
  if (config.from === "project") {
    return hostedSettings.safeParse(config.values).data ?? `${notShown(config.project).why}.`;
  }
  // Supabase Auth requires GOTRUE_JWT_SECRET. If it is missing here, the doctor was not given the backend's settings.
  if (config.values.GOTRUE_JWT_SECRET) return readOwnSettings(config.values);
  return "not shown by the backend: name its settings too (--env), or set SUPABASE_PROJECT_ID and SUPABASE_ACCESS_TOKEN.";
}

function readOwnSettings(settings: Record<string, string | undefined>): BackendSettings {
  const isOn = (name: string) => /^(1|t|true)$/i.test(settings[name] ?? "");
  return {
    mailIntervalSeconds: secondsOf(settings.GOTRUE_SMTP_MAX_FREQUENCY),
    hookUris: Object.fromEntries(
      hooks.map(({ key }) => {
        const name = `GOTRUE_HOOK_${key.toUpperCase()}`;
        return [key, isOn(`${name}_ENABLED`) ? (settings[`${name}_URI`] ?? null) : null];
      }),
    ),
  };
}

/** Reads a Go duration, such as `1m30s` (pkg.go.dev/time#ParseDuration). */
function secondsOf(duration = ""): number | null {
  const parts = [...duration.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
  const factors: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3_600 };
  return parts.length === 0
    ? null
    : parts.reduce((sum, [, n, unit = "s"]) => sum + Number(n) * (factors[unit] ?? 0), 0);
}

/** @param seconds null for the backend's default of one minute */
export function judgeMailInterval(seconds: number | null): Finding {
  const found = seconds ?? unsafeSeconds;
  if (found >= leastSeconds) return ok("mail interval", `${found} s between two mails to one address`);
  const says =
    `the backend sends a mail to one address every ${found} s: each voids the link of the one before. Set ` +
    `${leastSeconds} s (Dashboard, Authentication, Emails, SMTP Settings; self-hosted: GOTRUE_SMTP_MAX_FREQUENCY).`;
  return (found < unsafeSeconds ? fail : warn)("mail interval", says);
}

function judgeHooks(uris: BackendSettings["hookUris"]): Finding[] {
  const faults = hooks.flatMap(({ name, key }) => {
    const expected = `pg-functions://postgres/private/${key}`;
    const uri = uris[key] ?? null;
    if (uri === expected) return [];
    const found = uri === null ? `the hook for a ${name} is off` : `the hook for a ${name} runs ${uri}`;
    return [
      warn(
        "hooks",
        `${found}: guessing past our server meets the backend's limits alone. Set it to ${expected} (Dashboard, ` +
          "Authentication, Auth Hooks; plans below Team lack it; docs/abuse.md).",
      ),
    ];
  });
  return faults.length > 0 ? faults : [ok("hooks", "both attempt hooks are ours")];
}
