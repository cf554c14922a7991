import type { AppLoadContext } from "@remix-run/node";
import { createBrandFiles } from "../../remix-app/brand-files.ts";
import { brandOf } from "../../remix-app/config/brand.ts";
import { parseEnv } from "../../remix-app/config/env.server.ts";
import { type CookieJar, createCookieJar } from "../../remix-app/http/cookies.ts";
import { createServerSchedule } from "../../remix-app/schedule/server-schedule.ts";
import { openSessionServices } from "../../remix-app/session/edge-proxy.ts";
import { openRequestSession } from "../../remix-app/session/request-session.ts";
import { newAddress } from "../../remix-app/testing/visitor.ts";
import { recoveryHashSecret } from "../start/secrets.ts";

export interface ContextOptions {
  base: string;
  supabase: { url: string; publishableKey: string; secretKey: string };
  mail?: { smtp: string };
  /** A browser's Cookie header. To read a cookie that the stack's own server set, pass `vaultSettings()` in `env`. */
  cookie?: string;
  /** The Authorization header, for a caller of the API. */
  authorization?: string;
  /** Additional settings of the server. */
  env?: Record<string, string>;
}

/**
 * Creates the context that loaders and actions receive. Use it to test functions that cannot be tested through a page.
 */
export async function openContext({
  base,
  supabase,
  mail,
  cookie = "",
  authorization,
  env: more = {},
}: ContextOptions) {
  const env = parseEnv({
    NODE_ENV: "test",
    BASE_URL: base,
    SUPABASE_URL: supabase.url,
    SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
    SUPABASE_SECRET_KEY: supabase.secretKey,
    AUTH_RECOVERY_HASH_SECRET: recoveryHashSecret(supabase.secretKey),
    ...(mail ? { SMTP_URL: mail.smtp, MAIL_FROM: "Gatehouse <no-reply@gatehouse.test>" } : {}),
    ...more,
  });
  const jar: CookieJar = createCookieJar(cookie);
  const clientAddress = newAddress();
  const services = await openSessionServices(env);
  const session = await openRequestSession({
    env,
    services,
    jar,
    origin: base,
    authorization: authorization ?? null,
    clientAddress,
  });
  const context: AppLoadContext = {
    env,
    brand: createBrandFiles(brandOf(env)).page,
    requestId: crypto.randomUUID(),
    nonce: "",
    clientAddress,
    place: null,
    userAgent: "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    origin: base,
    surface: authorization ? "api" : "page",
    routePattern: "",
    jar,
    session,
    schedule: createServerSchedule(env),
    isPage: () => true,
    refusal: null,
    allowFormTarget: () => {},
    allowWidget: () => {},
    retryAfter: () => {},
  };
  return context;
}
