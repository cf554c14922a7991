import type { Ports } from "@gatehousehq/local-stack/ports";
import { host } from "@gatehousehq/local-stack/ports";
import {
  type SimulatedProviderName,
  simulatedProviderBase,
  simulatedProviderNames,
} from "@gatehousehq/local-stack/services/oidc/simulated-providers";
import { backendEmails, type EmailBrand } from "../operator/email-templates/backend-emails.ts";
import type { Addresses } from "./addresses.ts";
import { oidcClientSecret, type Secrets } from "./secrets.ts";

type ProviderOptions = {
  addresses: Addresses;
  secrets: Secrets;
  /** Identity backend settings from the environment, which take precedence over the stack's. */
  given: Record<string, string>;
  /** Whether the settings are for Supabase Auth's own binary. */
  isBinary: boolean;
};

/** Returns the id, secret and redirect URI that the identity backend uses at the stack's OpenID provider. */
export function oidcClient(addresses: Addresses, secrets: Secrets) {
  return {
    id: "gatehouse",
    secret: oidcClientSecret(secrets),
    redirectUri: `${addresses.supabase}/auth/v1/callback`,
  };
}

/** Providers whose addresses are fixed in Supabase Auth's own binary, so it cannot use the simulated ones. */
const fixedAddresses: readonly SimulatedProviderName[] = ["google", "apple"];

/** Lists the providers that the stack can simulate. */
export function playedProviders({ isBinary }: Pick<ProviderOptions, "isBinary">): SimulatedProviderName[] {
  return simulatedProviderNames.filter((name) => !(isBinary && fixedAddresses.includes(name)));
}

/** Returns the settings of the simulated providers. Skips each provider for which the environment sets a client id. */
function providerSettings({ addresses, secrets, given, isBinary }: ProviderOptions): Record<string, string> {
  const client = oidcClient(addresses, secrets);
  const simulatedProviders = playedProviders({ isBinary }).map((name) => ({
    name,
    url: simulatedProviderBase(addresses.oidc, name),
  }));
  return Object.fromEntries(
    [{ name: "keycloak", url: addresses.oidc }, ...simulatedProviders].flatMap(({ name, url }) => {
      const prefix = `GOTRUE_EXTERNAL_${name.toUpperCase()}`;
      if (given[`${prefix}_CLIENT_ID`]) return [];
      return [
        [`${prefix}_ENABLED`, "true"],
        [`${prefix}_CLIENT_ID`, client.id],
        [`${prefix}_SECRET`, client.secret],
        [`${prefix}_URL`, url],
        [`${prefix}_REDIRECT_URI`, client.redirectUri],
      ];
    }),
  );
}

/**
 * Account changes that Supabase Auth can email the owner about, named as in config.toml and the Management API.
 * Supabase Auth's emails stay off, because our triggers queue an email for each change.
 */
export const notificationMails = [
  "password_changed",
  "email_changed",
  "phone_changed",
  "identity_linked",
  "identity_unlinked",
  "mfa_factor_enrolled",
  "mfa_factor_unenrolled",
] as const;

/** Returns the Supabase Auth setting that enables a notification email. */
export function notificationSetting(name: (typeof notificationMails)[number]): string {
  return `GOTRUE_MAILER_NOTIFICATIONS_${name.toUpperCase()}_ENABLED`;
}

/**
 * Returns the environment of the identity backend, whether ours or Supabase Auth's own binary. Limits that protect
 * accounts match hosted Supabase. Limits that only protect an email provider are set too high to matter.
 */
export function identityEnvironment(
  options: ProviderOptions & {
    ports: Ports;
    databaseUrl: string;
    templatesUrl: string;
    brand: EmailBrand;
    parentDomain: string | undefined;
  },
): Record<string, string> {
  const { addresses, ports, secrets, databaseUrl, templatesUrl, brand, parentDomain, given } = options;
  const base = new URL(addresses.base);
  const siblings = parentDomain ? [`${base.protocol}//*.${parentDomain}${base.port ? `:${base.port}` : ""}`] : [];
  const allowed = [addresses.base, ...siblings];
  const signingKeys = [
    secrets.signingKey,
    {
      kty: "oct",
      alg: "HS256",
      kid: "role-tokens",
      k: Buffer.from(secrets.jwtSecret).toString("base64url"),
      key_ops: ["verify"],
    },
  ];
  const texts = Object.entries(backendEmails(brand)).flatMap(([kind, { file, subject }]) => [
    [`GOTRUE_MAILER_SUBJECTS_${kind}`, subject],
    [`GOTRUE_MAILER_TEMPLATES_${kind}`, `${templatesUrl}/${file}.html`],
  ]);
  return {
    DATABASE_URL: `${databaseUrl}?search_path=auth`,
    DB_NAMESPACE: "auth",
    GOTRUE_DB_DRIVER: "postgres",
    GOTRUE_DB_MAX_POOL_SIZE: "15",
    GOTRUE_API_HOST: host,
    PORT: String(ports.identity),
    API_EXTERNAL_URL: addresses.supabase,
    GOTRUE_SITE_URL: addresses.base,
    GOTRUE_URI_ALLOW_LIST: allowed.flatMap((origin) => [origin, `${origin}/**`]).join(","),
    GOTRUE_CORS_ALLOWED_HEADERS: "apikey",

    GOTRUE_JWT_SECRET: secrets.jwtSecret,
    GOTRUE_JWT_KEYS: JSON.stringify(signingKeys),
    GOTRUE_JWT_AUD: "authenticated",
    GOTRUE_JWT_DEFAULT_GROUP_NAME: "authenticated",
    GOTRUE_JWT_ADMIN_ROLES: "service_role,supabase_admin",
    GOTRUE_JWT_EXP: "3600",
    GOTRUE_JWT_ISSUER: `${addresses.supabase}/auth/v1`,

    GOTRUE_EXTERNAL_EMAIL_ENABLED: "true",
    ...providerSettings(options),
    GOTRUE_MAILER_AUTOCONFIRM: "false",
    GOTRUE_MAILER_OTP_EXP: "3600",
    // Ten digits, because direct callers of the backend could guess a shorter code. Email links are derived from the
    // same code.
    GOTRUE_MAILER_OTP_LENGTH: "10",
    GOTRUE_MAILER_URLPATHS_CONFIRMATION: "/auth/v1/verify",
    GOTRUE_MAILER_URLPATHS_RECOVERY: "/auth/v1/verify",
    GOTRUE_MAILER_URLPATHS_INVITE: "/auth/v1/verify",
    GOTRUE_MAILER_URLPATHS_EMAIL_CHANGE: "/auth/v1/verify",
    ...Object.fromEntries(texts),
    GOTRUE_SMTP_HOST: host,
    GOTRUE_SMTP_PORT: String(ports.smtp),
    GOTRUE_SMTP_ADMIN_EMAIL: "no-reply@gatehouse.test",
    GOTRUE_SMTP_SENDER_NAME: brand.name,
    GOTRUE_SMTP_MAX_FREQUENCY: "3m",
    GOTRUE_RATE_LIMIT_EMAIL_SENT: "100000",
    // All visitors of a local stack share one address, so these limits are high. Bursts stay limited to 30.
    GOTRUE_RATE_LIMIT_OTP: "3000",
    GOTRUE_RATE_LIMIT_VERIFY: "3000",
    GOTRUE_RATE_LIMIT_TOKEN_REFRESH: "3000",
    GOTRUE_RATE_LIMIT_PASSKEY: "3000",

    GOTRUE_PASSWORD_MIN_LENGTH: "8",
    GOTRUE_SECURITY_SB_FORWARDED_FOR_ENABLED: "true",
    GOTRUE_SECURITY_MANUAL_LINKING_ENABLED: "true",
    GOTRUE_SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION: "true",
    GOTRUE_SECURITY_REFRESH_TOKEN_ROTATION_ENABLED: "true",
    GOTRUE_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL: "10",
    GOTRUE_SECURITY_REFRESH_TOKEN_ALGORITHM_VERSION: "1",
    GOTRUE_MFA_TOTP_ENROLL_ENABLED: "true",
    GOTRUE_MFA_TOTP_VERIFY_ENABLED: "true",
    GOTRUE_HOOK_PASSWORD_VERIFICATION_ATTEMPT_ENABLED: "true",
    GOTRUE_HOOK_PASSWORD_VERIFICATION_ATTEMPT_URI: "pg-functions://postgres/private/password_verification_attempt",
    GOTRUE_HOOK_MFA_VERIFICATION_ATTEMPT_ENABLED: "true",
    GOTRUE_HOOK_MFA_VERIFICATION_ATTEMPT_URI: "pg-functions://postgres/private/mfa_verification_attempt",
    GOTRUE_PASSKEY_ENABLED: "true",
    GOTRUE_WEBAUTHN_RP_ID: parentDomain ?? base.hostname,
    GOTRUE_WEBAUTHN_RP_DISPLAY_NAME: brand.name,
    GOTRUE_WEBAUTHN_RP_ORIGINS: addresses.base,
    ...given,
    // These emails stay off even if a developer's environment enables them.
    ...Object.fromEntries(notificationMails.map((name) => [notificationSetting(name), "false"])),
  };
}
