import { z } from "zod";
import { brandAccent, brandMark, brandName, defaultName, isOwnMark, ownMarkFault } from "./brand.ts";
import { checkSettings, origin, wholeNumber } from "./env.server.ts";

const schema = z
  .object({
    NODE_ENV: z.enum(["development", "test", "production"]).default("production"),
    BASE_URL: origin,
    WEB_ALLOWED_ORIGINS: z
      .string()
      .transform((list) => list.split(",").map((entry) => entry.trim()))
      .pipe(z.array(origin))
      .optional(),
    HOST: z.string().default("127.0.0.1"),
    PORT: wholeNumber(0, 65_535).default(3000),
    APP_NAME: z.string().regex(/^[a-z][a-z0-9-]{1,39}$/, "must be the app's registered name, such as notes"),
    BRAND_NAME: brandName.default(defaultName),
    BRAND_ACCENT: brandAccent.optional(),
    BRAND_MARK: brandMark.optional(),
    APP_SECRET: z.string().min(32, "must be the secret that `npm run app -- add` has shown"),
    CENTRAL_URL: origin,
    CENTRAL_API_URL: origin.optional(),
    TRUSTED_PROXY_HOPS: wholeNumber(0, 10).default(0),
  })
  .refine(isOwnMark, ownMarkFault)
  .transform((env) => ({ ...env, CENTRAL_API_URL: env.CENTRAL_API_URL ?? env.CENTRAL_URL }));

/** A satellite's settings. What each is for: docs/settings.md. */
export type SatelliteEnv = Readonly<z.infer<typeof schema>>;

/** What opens the identity backend, its data or the gateway's: no satellite may hold it. */
const forbidden = /^(SUPABASE_|GOTRUE_|GATEWAY_DB_URL$|APP_SESSION_|WEB_MULTI_ACCOUNT_)/;

/**
 * Checks a satellite's environment once, at boot.
 * @throws Error with one line a fault; a key of the identity backend is one
 */
export function parseSatelliteEnv(source: Record<string, string | undefined>): SatelliteEnv {
  const held = Object.keys(source).filter((name) => forbidden.test(name) && source[name]);
  if (held.length > 0) {
    throw new Error(
      held
        .map((name) => `${name} must not be set: a satellite holds nothing that opens the platform's data.`)
        .join("\n"),
    );
  }
  return checkSettings(schema, source);
}
