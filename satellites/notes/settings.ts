/** Settings of Notes in addition to the satellite package's own settings. Described in docs/settings.md. */
export interface NotesSettings {
  host: string;
  port: number;
  /** The platform's product name. */
  brandName: string;
  accent: string | null;
  introspectionCacheSeconds: number | undefined;
}

const defaultPort = 3000;
const maxPort = 65_535;
const maxCacheSeconds = 60;

/** Reads the settings. @throws Error with one line per fault */
export function readNotesSettings(env: Readonly<Record<string, string | undefined>>): NotesSettings {
  const faults: string[] = [];
  function wholeNumber(name: string, max: number): number | undefined {
    const text = env[name];
    if (!text) return undefined;
    const number = Number(text);
    if (!/^\d+$/.test(text) || number > max) faults.push(`${name} is not valid: use a whole number from 0 to ${max}.`);
    return number;
  }
  const settings = {
    host: env.HOST || "127.0.0.1",
    port: wholeNumber("PORT", maxPort) ?? defaultPort,
    brandName: env.BRAND_NAME || "Gatehouse",
    accent: env.BRAND_ACCENT?.toLowerCase() || null,
    introspectionCacheSeconds: wholeNumber("INTROSPECTION_CACHE_SECONDS", maxCacheSeconds),
  };
  if (settings.accent && !/^#[0-9a-f]{6}$/.test(settings.accent))
    faults.push("BRAND_ACCENT is not valid: must be a colour such as #035e63.");
  if (faults.length > 0) throw new Error(faults.join("\n"));
  return settings;
}
