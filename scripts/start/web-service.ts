import path from "node:path";
import type { HeldPort } from "@gatehousehq/local-stack/ports";
import { host } from "@gatehousehq/local-stack/ports";
import { limits, type Service } from "@gatehousehq/local-stack/runner/service";
import { demoTenant } from "@gatehousehq/local-stack/services/oidc/simulated-providers";
import { defaultAccent, defaultName } from "../../remix-app/config/brand.ts";
import type { EmailBrand } from "../operator/email-templates/backend-emails.ts";
import { botChallengeOf } from "./bot-challenge.ts";
import { type Environment, examplePrefix } from "./environment.ts";
import { appSessionSecret, recoveryHashSecret, scheduleSecret } from "./secrets.ts";
import type { ServiceContext } from "./services.ts";

/** Describes the web server's process, for the project that `env` names. */
export function describeWeb(options: {
  root: string;
  port: HeldPort;
  dev: boolean;
  dependsOn: string[];
  env: Record<string, string>;
}): Service {
  const { root, port, dev, dependsOn, env } = options;
  return {
    kind: "service",
    name: "web",
    command: process.execPath,
    args: [path.join(root, "remix-app/server.ts")],
    cwd: root,
    env: {
      APP_NAME: "web",
      NODE_ENV: "production",
      ...env,
      ...(dev ? { NODE_ENV: "development" } : {}),
      HOST: host,
      PORT: String(port.port),
    },
    ports: [port],
    dependsOn: [...dependsOn, "build"],
    health: { url: `http://${host}:${port.port}/healthz` },
    ...limits,
  };
}

/** Returns the configured brand settings, for the stack's web servers. */
export function brandSettings({ all }: Environment): Record<string, string> {
  return Object.fromEntries(Object.entries(all).filter(([name]) => name.startsWith("BRAND_")));
}

/** Returns the brand for the identity backend's emails. */
export function emailBrand({ settings }: Environment): EmailBrand {
  return {
    name: settings.BRAND_NAME ?? defaultName,
    accent: settings.BRAND_ACCENT ?? defaultAccent,
    support: settings.SUPPORT_ADDRESS ?? null,
  };
}

/** Returns the web server's environment on the embedded stack. The stack's own secrets replace example values. */
export function webEnvironment(context: ServiceContext): Record<string, string> {
  const { addresses, ports, secrets, environment } = context;
  const given = environment.settings.WEB_MULTI_ACCOUNT_SESSION_SECRET;
  return {
    // Supabase Auth's own binary always calls the real Google and Apple, regardless of its settings.
    OAUTH_PROVIDERS: environment.settings.IDENTITY_BIN ? "github,azure,keycloak" : "google,github,apple,azure",
    OAUTH_FORM_TARGETS: addresses.oidc,
    MICROSOFT_TENANT: demoTenant,
    MICROSOFT_LOGIN_URL: `${addresses.oidc}/azure`,
    REQUIRED_MFA_POLICY_ENABLED: "on",
    OAUTH_CLIENT_REGISTRATION: "on",
    ...environment.all,
    ...botChallengeOf(context)?.web,
    BASE_URL: addresses.base,
    SUPABASE_URL: addresses.supabase,
    // Trusts X-Forwarded-For, so that tests can act as many visitors. Only this machine can connect.
    TRUSTED_PROXY_HOPS: environment.all.TRUSTED_PROXY_HOPS ?? "1",
    SUPABASE_PUBLISHABLE_KEY: secrets.publishableKey,
    SUPABASE_SECRET_KEY: secrets.secretKey,
    AI_URL: `${addresses.supabase}/functions`,
    MAILBOX_URL: addresses.mailbox,
    // The stack sends no requests to the internet unless a developer configures a list of breached passwords.
    BREACHED_PASSWORDS_URL: environment.all.BREACHED_PASSWORDS_URL ?? "off",
    SMTP_URL: `smtp://${host}:${ports.smtp}`,
    MAIL_FROM: `"${emailBrand(environment).name}" <no-reply@gatehouse.test>`,
    WEB_MULTI_ACCOUNT_SESSION_SECRET: given && !given.startsWith(examplePrefix) ? given : secrets.accountsSecret,
    APP_SESSION_SECRET: environment.all.APP_SESSION_SECRET ?? appSessionSecret(secrets),
    AUTH_RECOVERY_HASH_SECRET: environment.all.AUTH_RECOVERY_HASH_SECRET ?? recoveryHashSecret(secrets.secretKey),
    SCHEDULE_SECRET: environment.all.SCHEDULE_SECRET ?? scheduleSecret(secrets.secretKey),
  };
}
