import { getDomain } from "tldts";
import type { Settings, WebSettings } from "./settings.ts";

type AuthValue = string | number | boolean;
/** Fields of PATCH /v1/projects/{ref}/config/auth. */
export type AuthFields = Record<string, AuthValue>;

/**
 * The API's field for each key of [auth] in config.toml, as Supabase's command line maps them
 * (github.com/supabase/cli, apps/cli-go/pkg/config/auth.go). A leading `!` negates.
 */
const fields: Record<string, string> = {
  jwt_expiry: "jwt_exp",
  enable_signup: "!disable_signup",
  enable_anonymous_sign_ins: "external_anonymous_users_enabled",
  enable_manual_linking: "security_manual_linking_enabled",
  minimum_password_length: "password_min_length",
  password_requirements: "password_required_characters",
  enable_refresh_token_rotation: "refresh_token_rotation_enabled",
  refresh_token_reuse_interval: "security_refresh_token_reuse_interval",
  "rate_limit.sign_in_sign_ups": "rate_limit_otp",
  "rate_limit.token_verifications": "rate_limit_verify",
  "email.enabled": "external_email_enabled",
  "email.enable_confirmations": "!mailer_autoconfirm",
  "email.double_confirm_changes": "mailer_secure_email_change_enabled",
  "email.secure_password_change": "security_update_password_require_reauthentication",
  "email.max_frequency": "smtp_max_frequency",
  "email.otp_length": "mailer_otp_length",
  "email.otp_expiry": "mailer_otp_exp",
  "sms.enabled": "external_phone_enabled",
};

const fieldPatterns: [RegExp, string][] = [
  [/^(rate_limit|passkey|webauthn|mfa)\.(\w+)$/, "$1_$2"],
  [/^(mfa|hook)\.(\w+)\.(\w+)$/, "$1_$2_$3"],
  [/^email\.template\.(\w+)\.subject$/, "mailer_subjects_$1"],
  [/^email\.template\.(\w+)\.content_path$/, "mailer_templates_$1_content"],
  [/^email\.notification\.(\w+)\.enabled$/, "mailer_notifications_$1_enabled"],
];

/** Keys that are for the local stack, or replaced by the web server's settings. */
const localKeys = new Set(["enabled", "site_url", "additional_redirect_urls", "webauthn.rp_id", "webauthn.rp_origins"]);

/**
 * Returns the settings that the identity backend must have.
 * @param auth the section [auth] of config.toml
 * @param templates the emails' texts, by content_path
 * @param backend settings in Supabase Auth's own names: its providers and its captcha
 */
export function wantedAuthFields(options: {
  auth: unknown;
  templates: ReadonlyMap<string, string>;
  web: WebSettings;
  backend: Settings;
}): AuthFields {
  const { auth, templates, web, backend } = options;
  const { hostname, protocol, port } = new URL(web.BASE_URL);
  const siblings = web.PARENT_DOMAIN ? [`${protocol}//*.${web.PARENT_DOMAIN}${port && `:${port}`}`] : [];
  return {
    ...Object.fromEntries(leaves(auth).flatMap(([key, value]) => configField(key, value, templates))),
    site_url: web.BASE_URL,
    uri_allow_list: [web.BASE_URL, ...siblings].flatMap((origin) => [origin, `${origin}/**`]).join(","),
    webauthn_rp_id: getDomain(hostname, { allowPrivateDomains: true }) ?? hostname,
    webauthn_rp_origins: web.BASE_URL,
    ...smtpFields(web),
    // config.toml has no keys for these two.
    security_sb_forwarded_for_enabled: true,
    password_hibp_enabled: true,
    ...backendFields(backend),
  };
}

function leaves(value: unknown, path: string[] = []): [string, unknown][] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [[path.join("."), value]];
  return Object.entries(value).flatMap(([key, below]) => leaves(below, [...path, key]));
}

function configField(key: string, value: unknown, templates: ReadonlyMap<string, string>): [string, AuthValue][] {
  if (localKeys.has(key)) return [];
  const pattern = fieldPatterns.find(([expression]) => expression.test(key));
  const field = fields[key] ?? (pattern && key.replace(...pattern));
  if (!field) throw new Error(`config.toml has auth.${key}, which setup cannot set.`);
  if (field.startsWith("!")) return [[field.slice(1), !value]];
  const text = String(value);
  if (key.endsWith(".content_path")) {
    const template = templates.get(text.replace(/^\.\//, ""));
    if (template === undefined) throw new Error(`config.toml names ${text}, and there is no such email.`);
    return [[field, template]];
  }
  return [[field, key === "email.max_frequency" ? seconds(text) : (value as AuthValue)]];
}

function seconds(duration: string): number {
  const [, count, unit] = /^(\d+)([smh])$/.exec(duration) ?? [];
  if (!count) throw new Error(`config.toml has the duration ${duration}. Write it as 90s, 3m or 1h.`);
  return Number(count) * (unit === "h" ? 3_600 : unit === "m" ? 60 : 1);
}

function smtpFields({ SMTP_URL, MAIL_FROM, BRAND_NAME }: WebSettings): AuthFields {
  const { protocol, hostname, port, username, password } = new URL(SMTP_URL);
  const [, name, address = MAIL_FROM] = /^(.*?)\s*<(.*)>$/.exec(MAIL_FROM) ?? [];
  return {
    smtp_host: hostname,
    smtp_port: port || (protocol === "smtps:" ? "465" : "587"),
    smtp_user: decodeURIComponent(username),
    smtp_pass: decodeURIComponent(password),
    smtp_admin_email: address,
    smtp_sender_name: name || BRAND_NAME,
  };
}

const backendName = /^GOTRUE_(EXTERNAL_[A-Z0-9_]+|SECURITY_CAPTCHA_(ENABLED|PROVIDER|SECRET))$/;

/** Translates GOTRUE_EXTERNAL_GOOGLE_SECRET to external_google_secret, and so on. */
function backendFields(settings: Settings): AuthFields {
  return Object.fromEntries(
    Object.entries(settings).map(([name, value = ""]) => {
      if (!backendName.test(name))
        throw new Error(`setup cannot set ${name}: only GOTRUE_EXTERNAL_… and GOTRUE_SECURITY_CAPTCHA_….`);
      const field = name.slice("GOTRUE_".length).toLowerCase();
      return [field, /_(enabled|optional|nonce_check)$/.test(field) ? /^(1|t|true)$/i.test(value) : value];
    }),
  );
}

/** Whether the API returns a hash in place of the value. */
export function isSecretField(field: string): boolean {
  return /_(pass|secret|secrets)$/.test(field);
}
