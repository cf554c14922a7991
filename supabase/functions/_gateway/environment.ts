import { z } from "zod";
import { maxCallSeconds } from "../_shared/longest-call.ts";
import { isLoopback } from "../_shared/loopback.ts";
import { type TimeLimits, timeLimitsOf } from "./providers/limits.ts";
import { type Provider, readProviders } from "./providers/provider-settings.ts";
import { readTelemetry } from "./telemetry/settings.ts";
import type { TelemetrySettings } from "./telemetry/telemetry.ts";

/** The settings that the edge functions read from their environment. */
export type GatewayEnvironment = {
  databaseUrl: string;
  supabaseUrl: string;
  /** The issuer of access tokens, if it isn't the identity backend at `supabaseUrl`. */
  tokenIssuer?: string;
  /** The web server's origin, to which errors link. */
  webOrigin?: string;
  /** The project's publishable key, sent with calls that pass through Supabase's API gateway. */
  publishableKey?: string;
  trustedHops: number;
  /** The project's secret keys. Our own web server authenticates with any of them. */
  secretKeys: string[];
  providers: Map<string, Provider>;
  limits: TimeLimits;
  /** The memory that the process may use, in bytes. */
  memoryLimitBytes: number;
  telemetry: TelemetrySettings;
};

/** Keys by name, as hosted Supabase provides them: `{"default":"sb_secret_…"}`. The entry `default` comes first. */
const keyDictionary = z
  .string()
  .transform((text, context): unknown => {
    try {
      return JSON.parse(text);
    } catch {
      // The message of JSON.parse is not used, because it quotes the secret text.
      context.addIssue({ code: "custom", message: "Not JSON: expected an object of keys by their names" });
      return z.NEVER;
    }
  })
  .pipe(z.record(z.string(), z.string()))
  .transform(({ default: first = "", ...others }) => [first, ...Object.values(others)])
  .default([]);

/** Hosted Supabase ends an isolate that uses more (https://supabase.com/docs/guides/functions/limits). */
const hostedMemoryMb = 256;

const settings = z.object({
  GATEWAY_DB_URL: z.url({ protocol: /^postgres(ql)?$/ }),
  SUPABASE_URL: z.url(),
  GATEWAY_TOKEN_ISSUER: z.url().optional(),
  WEB_URL: z.url({ protocol: /^https?$/ }).optional(),
  SUPABASE_PUBLISHABLE_KEYS: keyDictionary,
  SUPABASE_PUBLISHABLE_KEY: z.string().optional(),
  SUPABASE_ANON_KEY: z.string().optional(),
  SUPABASE_SECRET_KEYS: keyDictionary,
  SUPABASE_SECRET_KEY: z.string().optional(),
  SUPABASE_SERVICE_ROLE_KEY: z.string().optional(),
  AI_TRUSTED_PROXY_HOPS: z.coerce.number().int().min(0).max(10).default(1),
  AI_MEMORY_LIMIT_MB: z.coerce.number().int().min(256).max(65_536).default(hostedMemoryMb),
  AI_TOTAL_LIMIT_SECONDS: z.coerce.number().int().min(1).max(maxCallSeconds).optional(),
  // Only hosted Supabase sets it: https://supabase.com/docs/guides/functions/secrets
  SB_REGION: z.string().optional(),
});

/**
 * Reads the settings that docs/settings.md lists under "Edge functions".
 * @throws Error that names the missing or wrong setting
 */
export function readEnvironment(env: Record<string, string | undefined>): GatewayEnvironment {
  const parsed = settings.safeParse(dropEmpty(env));
  if (!parsed.success) throw new Error(`The environment is not complete: ${z.prettifyError(parsed.error)}`);
  const { data } = parsed;
  const { GATEWAY_DB_URL, SUPABASE_URL, AI_TOTAL_LIMIT_SECONDS, AI_TRUSTED_PROXY_HOPS } = data;
  const isHosted = data.SB_REGION !== undefined;
  const memoryLimitMb = isHosted ? hostedMemoryMb : data.AI_MEMORY_LIMIT_MB;
  const local = isLoopback(new URL(SUPABASE_URL).hostname);
  const providers = readProviders(env, { local });
  return {
    databaseUrl: GATEWAY_DB_URL,
    supabaseUrl: SUPABASE_URL.replace(/\/+$/, ""),
    tokenIssuer: data.GATEWAY_TOKEN_ISSUER,
    webOrigin: data.WEB_URL && new URL(data.WEB_URL).origin,
    publishableKey: presentKeys(
      data.SUPABASE_PUBLISHABLE_KEYS,
      data.SUPABASE_PUBLISHABLE_KEY,
      data.SUPABASE_ANON_KEY,
    )[0],
    trustedHops: AI_TRUSTED_PROXY_HOPS,
    secretKeys: presentKeys(data.SUPABASE_SECRET_KEYS, data.SUPABASE_SECRET_KEY, data.SUPABASE_SERVICE_ROLE_KEY),
    providers,
    limits: timeLimitsOf({ totalSeconds: AI_TOTAL_LIMIT_SECONDS, isHosted }),
    memoryLimitBytes: memoryLimitMb * 1_000_000,
    telemetry: readTelemetry(dropEmpty(env)),
  };
}

/** Returns the keys that are set, newest format first. */
function presentKeys(dictionary: string[], ...older: (string | undefined)[]): string[] {
  return [...dictionary, ...older].flatMap((key) => key || []);
}

function dropEmpty(env: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter((entry): entry is [string, string] => Boolean(entry[1])));
}
