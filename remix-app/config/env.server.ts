import { z } from "zod";
import { metricsSettings } from "#shared/metrics-access.ts";
import { traceSettings } from "#shared/trace-settings.ts";
import {
  brandAccent,
  brandMark,
  brandName,
  defaultName,
  hasMarkOnOwnOrigin,
  ownMarkFault,
  supportAddress,
} from "./brand.ts";
import { microsoftTenant, oauthProviderNames } from "./oauth-providers.ts";

/** An origin. The path and everything after it are cut off. */
const originSchema = z.url({ protocol: /^https?$/ }).transform((text) => new URL(text).origin);
const baseUrlSchema = z.url({ protocol: /^https?$/ }).transform((text) => text.replace(/\/+$/, ""));
const commaListSchema = z.string().transform((text) => text.split(",").map((entry) => entry.trim()));
const hostname = z.string().regex(/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/, "must be a bare domain, such as example.com");
const headerName = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "must be the name of a header, such as CF-IPCountry")
  .optional();
const strongSecret = z.string().min(32, "must have at least 32 characters: make one with `openssl rand -base64 32`");

/** Returns a schema for a whole number in a range, given as text. */
export function createWholeNumberSchema(min: number, max: number) {
  const error = `must be a whole number from ${min} to ${max}`;
  return z.coerce.number(error).int(error).min(min, error).max(max, error);
}

/** Previous secrets, comma-separated. Anything made with them stays valid. */
const previousSecrets = commaListSchema.pipe(z.array(strongSecret)).optional();
/**
 * Like `previousSecrets`, but without a minimum length, because the list may contain the Supabase secret key, which is
 * the default for WEB_MULTI_ACCOUNT_SESSION_SECRET.
 */
const previousSecretsOfAnyLengthSchema = commaListSchema.pipe(z.array(z.string().min(1))).optional();

/** The web server's settings. docs/settings.md has the purpose and fallback of each. */
const envSchema = z
  .object({
    NODE_ENV: z.enum(["development", "test", "production"]).default("production"),
    BASE_URL: originSchema,
    WEB_ALLOWED_ORIGINS: commaListSchema.pipe(z.array(originSchema)).optional(),
    HOST: z.string().default("127.0.0.1"),
    PORT: createWholeNumberSchema(0, 65_535).default(3000),
    WEB_PROCESSES: createWholeNumberSchema(1, 64).default(1),
    APP_NAME: z
      .literal("web", "must be web: the satellite Notes is a server of its own (docs/satellites.md)")
      .default("web"),
    BRAND_NAME: brandName.default(defaultName),
    BRAND_ACCENT: brandAccent.optional(),
    BRAND_MARK: brandMark.optional(),
    SUPPORT_ADDRESS: supportAddress.optional(),
    SUPABASE_URL: baseUrlSchema,
    SUPABASE_PUBLISHABLE_KEY: z.string(),
    SUPABASE_SECRET_KEY: z.string(),
    AI_URL: baseUrlSchema.optional(),
    PARENT_DOMAIN: hostname.optional(),
    TRUSTED_PROXY_HOPS: createWholeNumberSchema(0, 10).default(0),
    VISITOR_CITY_HEADER: headerName,
    VISITOR_COUNTRY_HEADER: headerName,
    WEB_MULTI_ACCOUNT_SESSION_SECRET: strongSecret.optional(),
    WEB_MULTI_ACCOUNT_PREVIOUS_SECRETS: previousSecretsOfAnyLengthSchema,
    AUTH_RECOVERY_HASH_SECRET: strongSecret.optional(),
    APP_SESSION_SECRET: strongSecret.optional(),
    APP_SESSION_PREVIOUS_SECRETS: previousSecrets,
    REQUIRED_MFA_POLICY_ENABLED: z
      .enum(["on", "off"])
      .default("off")
      .transform((value) => value === "on"),
    SCHEDULE_SECRET: strongSecret.optional(),
    SCHEDULE_LOOP: z
      .enum(["on", "off"])
      .default("on")
      .transform((value) => value === "on"),
    OAUTH_CLIENT_REGISTRATION: z
      .enum(["on", "off"])
      .default("off")
      .transform((value) => value === "on"),
    OAUTH_PROVIDERS: commaListSchema
      .pipe(z.array(z.enum(oauthProviderNames, `may name ${oauthProviderNames.join(", ")}`)))
      .transform((names) => [...new Set(names)])
      .default([]),
    OAUTH_FORM_TARGETS: commaListSchema.pipe(z.array(originSchema)).default([]),
    MICROSOFT_TENANT: microsoftTenant.optional(),
    MICROSOFT_LOGIN_URL: baseUrlSchema.default("https://login.microsoftonline.com"),
    BREACHED_PASSWORDS_URL: z
      .union([z.literal("off"), z.url({ protocol: /^https?$/ })])
      .transform((value) => (value === "off" ? undefined : value.replace(/\/+$/, "")))
      .default("https://api.pwnedpasswords.com"),
    PRICE_SOURCE_URLS: commaListSchema
      .pipe(
        z
          .array(z.url({ protocol: /^https$/, error: "must be https:// URLs, separated by a comma" }))
          .max(2, "may have at most two URLs"),
      )
      .default([]),
    OPENAI_ADMIN_KEY: z.string().optional(),
    OPENAI_BASE_URL: baseUrlSchema.default("https://api.openai.com/v1"),
    ANTHROPIC_ADMIN_KEY: z.string().optional(),
    ANTHROPIC_BASE_URL: baseUrlSchema.default("https://api.anthropic.com"),
    OPENROUTER_ADMIN_KEY: z.string().optional(),
    OPENROUTER_BASE_URL: baseUrlSchema.default("https://openrouter.ai/api/v1"),
    MAILBOX_URL: z.url().optional(),
    SMTP_URL: z.url({ protocol: /^smtps?$/ }).optional(),
    MAIL_FROM: z
      .string()
      .regex(/^([^<>@\r\n]* )?<?[^\s<>@]+@[^\s<>@]+>?$/, "must be an address, such as Gatehouse <no-reply@example.com>")
      .optional(),
    TURNSTILE_SITE_KEY: z.string().optional(),
    TURNSTILE_ORIGIN: originSchema.default("https://challenges.cloudflare.com"),
    LOG_FORMAT: z.enum(["text", "json"]).default("text"),
    ...metricsSettings,
    ...traceSettings,
    E2E_BOT_CHALLENGE_BYPASS: z.enum(["on", "off"]).default("off"),
  })
  .refine(hasMarkOnOwnOrigin, ownMarkFault)
  .refine((env) => env.SMTP_URL === undefined || env.MAIL_FROM !== undefined, {
    path: ["MAIL_FROM"],
    error: "must be set where SMTP_URL is",
  })
  .refine((env) => env.TRUSTED_PROXY_HOPS > 0 || !(env.VISITOR_CITY_HEADER || env.VISITOR_COUNTRY_HEADER), {
    path: ["TRUSTED_PROXY_HOPS"],
    error: "must be at least 1 where VISITOR_CITY_HEADER or VISITOR_COUNTRY_HEADER is set",
  })
  .refine((env) => env.SCHEDULE_LOOP || env.SCHEDULE_SECRET !== undefined, {
    path: ["SCHEDULE_SECRET"],
    error: "must be set where SCHEDULE_LOOP is off",
  })
  .refine((env) => env.NODE_ENV !== "production" || env.AUTH_RECOVERY_HASH_SECRET !== undefined, {
    path: ["AUTH_RECOVERY_HASH_SECRET"],
    error: "must be set in production",
  })
  .refine((env) => !env.OAUTH_PROVIDERS.includes("azure") || env.MICROSOFT_TENANT !== undefined, {
    path: ["MICROSOFT_TENANT"],
    error: "must name one tenant where OAUTH_PROVIDERS has azure",
  })
  .transform((env) => ({ ...env, AI_URL: env.AI_URL ?? `${env.SUPABASE_URL}/functions` }));

export type Env = Readonly<z.infer<typeof envSchema>>;

const secrets = [
  "SUPABASE_SECRET_KEY",
  "WEB_MULTI_ACCOUNT_SESSION_SECRET",
  "APP_SESSION_SECRET",
  "AUTH_RECOVERY_HASH_SECRET",
  "METRICS_TOKEN",
  "SCHEDULE_SECRET",
  "WEB_MULTI_ACCOUNT_PREVIOUS_SECRETS",
  "APP_SESSION_PREVIOUS_SECRETS",
] as const;

/**
 * Checks the environment once, at boot. An empty value counts as missing.
 * @throws Error with one line per fault, which names the variable and what to do
 */
export function parseEnv(source: Record<string, string | undefined>): Env {
  const env = checkSettings(envSchema, { ...source, SUPABASE_SECRET_KEY: serverSecret(source) });
  if (env.NODE_ENV === "production") {
    const examples = secrets.filter((name) =>
      [env[name] ?? []].flat().some((secret) => secret.startsWith("example-only-")),
    );
    if (examples.length > 0)
      throw new Error(
        examples
          .map((name) => `${name} still holds the example's value: production refuses it. Set a secret of your own.`)
          .join("\n"),
      );
  }
  return env;
}

/** Returns the identity backend's server secret from any of its names, in a fixed order. */
function serverSecret(source: Record<string, string | undefined>): string | undefined {
  return source.SUPABASE_SECRET_KEY || source.SUPABASE_SERVICE_ROLE_KEY || source.SUPABASE_SERVICE_KEY;
}

/** Checks settings against a runtime's schema. @throws Error like {@link parseEnv} */
export function checkSettings<Schema extends z.ZodType>(
  schema: Schema,
  source: Record<string, string | undefined>,
): z.output<Schema> {
  const given = Object.fromEntries(Object.entries(source).filter(([, value]) => value !== ""));
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const lines = parsed.error.issues.map((issue) => {
    const name = String(issue.path[0]);
    return given[name] === undefined
      ? `${name} is missing: set it in the environment or in .env (see .env.example).`
      : `${name} is not valid: ${issue.message}.`;
  });
  throw new Error([...new Set(lines)].join("\n"));
}
