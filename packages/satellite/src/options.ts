import { SatelliteConfigError } from "./errors.ts";

/** Options of a satellite. Each defaults to an environment variable. */
export interface SatelliteOptions {
  /** The registered name (`APP_NAME`). */
  appName?: string | undefined;
  /** The secret from the registration (`APP_SECRET`). */
  appSecret?: string | undefined;
  /** This app's origin, exactly as registered (`BASE_URL`). */
  origin?: string | undefined;
  /** The platform's origin, as browsers reach it (`CENTRAL_URL`). */
  platformUrl?: string | undefined;
  /** The platform's origin, as this server reaches it (`CENTRAL_API_URL`). Defaults to `platformUrl`. */
  platformApiUrl?: string | undefined;
  /** How long an introspection result is cached, 0 to 60 seconds. Defaults to 60. */
  introspectionCacheSeconds?: number | undefined;
  /** Receives one line for each failure. Defaults to `console.error`. */
  log?: ((line: string) => void) | undefined;
  /** The environment to read and check. Defaults to `process.env`, if there is one. */
  env?: Readonly<Record<string, string | undefined>> | undefined;
}

/** Checked options. */
export interface Settings {
  appName: string;
  appSecret: string;
  origin: string;
  platformUrl: string;
  platformApiUrl: string;
  introspectionCacheSeconds: number;
  log: (line: string) => void;
}

const appNamePattern = /^[a-z][a-z0-9-]{1,39}$/;
const minSecretLength = 32;
const maxCacheSeconds = 60;
const loopback = /^(localhost|127(\.\d{1,3}){3}|\[::1\]|[a-z0-9.-]+\.localhost)$/;
/** Names of the platform's own settings, some of which are keys to its data. A satellite must not have them. */
const forbiddenSettingPattern = /^(SUPABASE_|GOTRUE_|GATEWAY_DB_URL$|APP_SESSION_|WEB_MULTI_ACCOUNT_)/;

/**
 * Checks the options and the environment.
 * @throws SatelliteConfigError with one line for each fault; secrets are never repeated
 */
export function readSettings(options: SatelliteOptions = {}): Settings {
  const env = options.env ?? (typeof process === "undefined" ? {} : process.env);
  const faults = Object.keys(env)
    .filter((name) => forbiddenSettingPattern.test(name) && env[name])
    .map((name) => `${name} must not be set: a satellite holds nothing that opens the platform's data.`);
  const optionOrEnv = (value: string | undefined, variable: string) => value || env[variable] || "";

  const appName = optionOrEnv(options.appName, "APP_NAME");
  if (!appName) faults.push("APP_NAME is missing: set it, or appName, to the app's registered name, such as notes.");
  else if (!appNamePattern.test(appName))
    faults.push("APP_NAME is not valid: it must be the app's registered name, such as notes.");

  const appSecret = optionOrEnv(options.appSecret, "APP_SECRET");
  const fromRegistration = "the secret that `npm run gatehouse -- app add` or the console showed";
  if (!appSecret) faults.push(`APP_SECRET is missing: set it, or appSecret, to ${fromRegistration}.`);
  else if (appSecret.length < minSecretLength) faults.push(`APP_SECRET is not valid: it must be ${fromRegistration}.`);

  function origin(value: string | undefined, variable: string, option: string): string {
    const text = optionOrEnv(value, variable);
    if (!text) {
      faults.push(`${variable} is missing: set it, or ${option}, to an origin such as https://notes.example.com.`);
      return "";
    }
    const fault = originFault(text);
    if (fault) faults.push(`${variable} is not valid: ${fault}`);
    return fault ? "" : new URL(text).origin;
  }

  const own = origin(options.origin, "BASE_URL", "origin");
  if (own.startsWith("http:") && !loopback.test(new URL(own).hostname))
    faults.push("BASE_URL is not valid: use https, because session cookies must not travel over plain http.");
  const platformUrl = origin(options.platformUrl, "CENTRAL_URL", "platformUrl");
  const apiUrl = optionOrEnv(options.platformApiUrl, "CENTRAL_API_URL");
  const platformApiUrl = apiUrl ? origin(apiUrl, "CENTRAL_API_URL", "platformApiUrl") : platformUrl;
  if (own && own === platformUrl) faults.push("CENTRAL_URL is not valid: it must differ from this app's origin.");

  const introspectionCacheSeconds = options.introspectionCacheSeconds ?? maxCacheSeconds;
  if (!(introspectionCacheSeconds >= 0 && introspectionCacheSeconds <= maxCacheSeconds))
    faults.push(`introspectionCacheSeconds is not valid: use 0 to ${maxCacheSeconds}.`);

  if (faults.length > 0) throw new SatelliteConfigError(faults);
  const log = options.log ?? ((line: string) => console.error(line));
  return { appName, appSecret, origin: own, platformUrl, platformApiUrl, introspectionCacheSeconds, log };
}

function originFault(text: string): string | null {
  if (!URL.canParse(text)) return "it must be an origin such as https://notes.example.com.";
  const { protocol, pathname, search, hash, username, password } = new URL(text);
  if (protocol !== "https:" && protocol !== "http:") return "it must begin with https:// or http://.";
  if (pathname !== "/" || search || hash)
    return "it must be an origin without a path, such as https://notes.example.com.";
  return username || password ? "it must not contain a user name or password." : null;
}
