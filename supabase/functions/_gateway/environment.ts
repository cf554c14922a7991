import { z } from "zod";
import { isLoopback } from "../_shared/loopback.ts";
import { readTelemetry } from "./telemetry/settings.ts";
import type { TelemetrySettings } from "./telemetry/telemetry.ts";

/** A model provider's address and key. Addresses come from the environment alone: no row can send a request elsewhere. */
export type Provider = {
  baseUrl: string;
  apiKey: string;
  /** Whose wire format it speaks. */
  kind: "openai" | "gemini";
  /** It charges for a call that its client leaves, so that reading on to the usage costs nothing more. */
  drains: boolean;
};

/** What the functions are told by their environment. */
export type GatewayEnvironment = {
  databaseUrl: string;
  supabaseUrl: string;
  /** The project's publishable key, for the calls that its gateway lets through with it. */
  publishableKey?: string;
  trustedHops: number;
  /** The project's secret keys. Our own web server proves itself with any of them. */
  secretKeys: string[];
  providers: Map<string, Provider>;
  totalLimitMs: number;
  telemetry: TelemetrySettings;
};

/** Keys by their names, as hosted Supabase gives them: `{"default":"sb_secret_…"}`. The entry `default` comes first. */
const keyDictionary = z
  .string()
  .transform((text, context): unknown => {
    try {
      return JSON.parse(text);
    } catch {
      // JSON.parse quotes the text in its message.
      context.addIssue({ code: "custom", message: "Not JSON: expected an object of keys by their names" });
      return z.NEVER;
    }
  })
  .pipe(z.record(z.string(), z.string()))
  .transform(({ default: first = "", ...others }) => [first, ...Object.values(others)])
  .default([]);

const settings = z.object({
  GATEWAY_DB_URL: z.url({ protocol: /^postgres(ql)?$/ }),
  SUPABASE_URL: z.url(),
  SUPABASE_PUBLISHABLE_KEYS: keyDictionary,
  SUPABASE_PUBLISHABLE_KEY: z.string().optional(),
  SUPABASE_ANON_KEY: z.string().optional(),
  SUPABASE_SECRET_KEYS: keyDictionary,
  SUPABASE_SECRET_KEY: z.string().optional(),
  SUPABASE_SERVICE_ROLE_KEY: z.string().optional(),
  AI_TRUSTED_PROXY_HOPS: z.coerce.number().int().min(0).max(10).default(1),
  AI_TOTAL_LIMIT_SECONDS: z.coerce.number().int().min(1).max(400).default(180),
});
const kind = z.enum(["openai", "gemini"]).default("openai");
const onLeave = z.enum(["cancel", "drain"]).default("cancel");
const providerSetting = /^AI_PROVIDER_([A-Z][A-Z0-9_]*)_BASE_URL$/;

/**
 * Reads GATEWAY_DB_URL (role `gateway`), SUPABASE_URL and the project's keys, AI_PROVIDER_<ID>_BASE_URL, _API_KEY, _KIND and _ON_LEAVE for each provider id that routes name,
 * AI_TRUSTED_PROXY_HOPS (default 1, the platform's own), and AI_TOTAL_LIMIT_SECONDS (default 180; the platform's free
 * plan allows 70); and what telemetry takes.
 * @throws Error naming the setting that is missing or wrong
 */
export function readEnvironment(env: Record<string, string | undefined>): GatewayEnvironment {
  const parsed = settings.safeParse(dropEmpty(env));
  if (!parsed.success) throw new Error(`The environment is not complete: ${z.prettifyError(parsed.error)}`);
  const { data } = parsed;
  const { GATEWAY_DB_URL, SUPABASE_URL, AI_TOTAL_LIMIT_SECONDS, AI_TRUSTED_PROXY_HOPS } = data;
  const local = isLoopback(new URL(SUPABASE_URL).hostname);
  const providers = readProviders(env, { local });
  return {
    databaseUrl: GATEWAY_DB_URL,
    supabaseUrl: SUPABASE_URL.replace(/\/+$/, ""),
    publishableKey: given(data.SUPABASE_PUBLISHABLE_KEYS, data.SUPABASE_PUBLISHABLE_KEY, data.SUPABASE_ANON_KEY)[0],
    trustedHops: AI_TRUSTED_PROXY_HOPS,
    secretKeys: given(data.SUPABASE_SECRET_KEYS, data.SUPABASE_SECRET_KEY, data.SUPABASE_SERVICE_ROLE_KEY),
    providers,
    totalLimitMs: AI_TOTAL_LIMIT_SECONDS * 1_000,
    telemetry: readTelemetry(dropEmpty(env)),
  };
}

/**
 * Reads the providers' addresses and keys.
 * @param local providers may be on this machine, as the project is
 * @throws Error naming the setting that is missing or wrong
 */
export function readProviders(
  env: Record<string, string | undefined>,
  { local }: { local: boolean },
): Map<string, Provider> {
  const providers = new Map<string, Provider>();
  for (const [name, baseUrl] of Object.entries(dropEmpty(env))) {
    const id = providerSetting.exec(name)?.[1];
    if (!id) continue;
    const apiKey = env[`AI_PROVIDER_${id}_API_KEY`];
    if (!apiKey) throw new Error(`AI_PROVIDER_${id}_API_KEY is missing, but ${name} is set.`);
    checkAddress(name, baseUrl, local);
    const speaks = kind.safeParse(env[`AI_PROVIDER_${id}_KIND`] || undefined);
    if (!speaks.success) throw new Error(`AI_PROVIDER_${id}_KIND must be openai or gemini.`);
    const leave = onLeave.safeParse(env[`AI_PROVIDER_${id}_ON_LEAVE`] || undefined);
    if (!leave.success) throw new Error(`AI_PROVIDER_${id}_ON_LEAVE must be cancel or drain.`);
    providers.set(id.toLowerCase(), {
      baseUrl: baseUrl.replace(/\/+$/, ""),
      apiKey,
      kind: speaks.data,
      drains: leave.data === "drain",
    });
  }
  return providers;
}

/** The keys that are set, from the newest form to the oldest. */
function given(dictionary: string[], ...older: (string | undefined)[]): string[] {
  return [...dictionary, ...older].flatMap((key) => key || []);
}

function dropEmpty(env: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter((entry): entry is [string, string] => Boolean(entry[1])));
}

/** Beside a local project a provider may be local too; elsewhere it is a public name reached by https. */
function checkAddress(name: string, text: string, local: boolean): void {
  if (!URL.canParse(text)) throw new Error(`${name} is not a URL.`);
  const { protocol, hostname } = new URL(text);
  if (local && isLoopback(hostname)) return;
  if (protocol !== "https:") throw new Error(`${name} must begin with https://.`);
  if (isLoopback(hostname) || isAddress(hostname)) throw new Error(`${name} must name a public host, not an address.`);
}

function isAddress(hostname: string): boolean {
  return hostname.startsWith("[") || /^\d+(\.\d+){3}$/.test(hostname);
}
