import { Hono } from "hono";
import { isKnownProvider, listedProviders } from "../config/providers.ts";
import type { Deps } from "../core/deps.ts";
import type { Env } from "../http/context.ts";
import { openToAnyOrigin } from "../http/cors.ts";
import { supabaseAuthVersion } from "../supabase-auth-routes.ts";

const version = `${supabaseAuthVersion}-gatehouse`;

/** Serves information that requires no token. */
export function publicRoutes({ config }: Deps): Hono<Env> {
  const own = [...config.providers.keys()].filter((name) => !isKnownProvider(name));
  const external = {
    anonymous_users: false,
    ...Object.fromEntries([...listedProviders, ...own].map((name) => [name, config.providers.get(name)?.enabled])),
    email: config.GOTRUE_EXTERNAL_EMAIL_ENABLED,
    phone: false,
  };
  return new Hono<Env>()
    .get("/health", (c) =>
      c.json({ version, name: "GoTrue", description: "GoTrue is a user registration and authentication API" }),
    )
    .get("/settings", (c) =>
      c.json({
        external,
        disable_signup: config.GOTRUE_DISABLE_SIGNUP,
        mailer_autoconfirm: config.GOTRUE_MAILER_AUTOCONFIRM,
        phone_autoconfirm: false,
        sms_provider: "",
        saml_enabled: false,
        saml_private_key_next_configured: false,
        passkeys_enabled: config.GOTRUE_PASSKEY_ENABLED,
      }),
    );
}

/**
 * Serves the key set, serialized once. Skips the middleware to answer faster, since token checks wait for the key set.
 */
export function keySetRoute({ keys }: Deps): Hono<Env> {
  const body = JSON.stringify(keys.jwks);
  const headers = { ...openToAnyOrigin, "Content-Type": "application/json", "Cache-Control": "public, max-age=600" };
  return new Hono<Env>().get("/.well-known/jwks.json", (c) =>
    c.req.raw.method === "HEAD" ? c.notFound() : new Response(body, { headers: { ...headers } }),
  );
}
