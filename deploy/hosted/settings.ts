import { randomBytes } from "node:crypto";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { z } from "zod";
import { brandAccent, brandName, defaultAccent, defaultName, supportAddress } from "../../remix-app/config/brand.ts";

export type Settings = Record<string, string | undefined>;

/** The web server's settings that determine those of the identity backend. */
export const webSettings = z.object({
  BASE_URL: z
    .url({ protocol: /^https?$/, error: "must be the web server's address, such as https://app.example.com" })
    .transform((text) => new URL(text).origin),
  PARENT_DOMAIN: z.string().optional(),
  SMTP_URL: z.url({
    protocol: /^smtps?$/,
    error: "must be an address, such as smtps://user:password@smtp.example.com:465",
  }),
  MAIL_FROM: z
    .string({ error: "must be a sender, such as Gatehouse <no-reply@example.com>" })
    .regex(/^([^<>@\r\n]* )?<?[^\s<>@]+@[^\s<>@]+>?$/, "must be a sender, such as Gatehouse <no-reply@example.com>"),
  BRAND_NAME: brandName.default(defaultName),
  BRAND_ACCENT: brandAccent.default(defaultAccent),
  SUPPORT_ADDRESS: supportAddress.nullable().default(null),
  OAUTH_PROVIDERS: z
    .string()
    .default("")
    .transform((text) => text.split(",").flatMap((name) => name.trim() || [])),
  TURNSTILE_SITE_KEY: z.string().optional(),
});
export type WebSettings = z.output<typeof webSettings>;

/** Reads a settings file. An empty value counts as missing. */
export function readSettings(file: string): Settings {
  const settings = existsSync(file) ? parseEnv(readFileSync(file, "utf8")) : {};
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== ""));
}

/**
 * Adds settings to a file that Node and Docker read alike. Never changes or removes a line.
 * @throws Error if a value, some of which the API returned, could be read as something else, such as another setting
 */
export function addSettings(file: string, settings: Record<string, string>): void {
  if (Object.keys(settings).length === 0) return;
  const unusable = Object.keys(settings).filter((name) => !/^[\w:/@.-]+$/.test(settings[name] ?? ""));
  if (unusable.length > 0) throw new Error(`The project returned no usable ${unusable.join(", ")}.`);
  const isOpenLine = existsSync(file) && /[^\n]$/.test(readFileSync(file, "utf8"));
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
  appendFileSync(file, (isOpenLine ? "\n" : "") + lines.join(""), { mode: 0o600 });
}

/** Returns the settings that the web server needs and the operator did not decide, with new secrets. */
export function createWebSettings(project: string): Record<string, string> {
  const secret = () => randomBytes(36).toString("base64url");
  return {
    NODE_ENV: "production",
    HOST: "0.0.0.0",
    TRUSTED_PROXY_HOPS: "1",
    SUPABASE_URL: `https://${project}.supabase.co`,
    WEB_MULTI_ACCOUNT_SESSION_SECRET: secret(),
    AUTH_RECOVERY_HASH_SECRET: secret(),
    APP_SESSION_SECRET: secret(),
    REQUIRED_MFA_POLICY_ENABLED: "on",
  };
}

/** Returns the address by which functions reach the database: the pooler in transaction mode. */
export function createGatewayAddress({ project, poolerHost }: { project: string; poolerHost: string }): string {
  return `postgres://gateway.${project}:${randomBytes(24).toString("hex")}@${poolerHost}:6543/postgres`;
}
