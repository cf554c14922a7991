import { isReadable } from "./readable.ts";

/** Names of the headers in which a trusted proxy sends a visitor's place. */
export interface PlaceHeaders {
  city?: string | undefined;
  country?: string | undefined;
}

const countries = new Intl.DisplayNames(["en"], { type: "region", fallback: "none" });
/**
 * Codes that proxies send for an unknown country: XX from Cloudflare, ZZ from Google. Cloudflare's T1 for Tor is not
 * listed, because `countryName` ignores codes with a digit.
 */
const unknownCountries = new Set(["XX", "ZZ"]);
const maxNameLength = 58;

/**
 * Returns a visitor's place, such as "Porto, Portugal", from the headers of a trusted proxy; null if they contain none.
 * The city may be percent-encoded (Vercel) or raw UTF-8 (Cloudflare), the country an ISO 3166 code or a name.
 */
export function visitorPlace(headers: Headers, { city, country }: PlaceHeaders): string | null {
  const names = [city && readName(headers.get(city)), country && countryName(readName(headers.get(country)))];
  return names.filter(Boolean).join(", ") || null;
}

function countryName(text: string | null): string | null {
  if (!text || !/^[A-Z][A-Z0-9]$/i.test(text)) return text;
  const code = text.toUpperCase();
  if (!/^[A-Z]{2}$/.test(code) || unknownCountries.has(code)) return null;
  return countries.of(code) ?? null;
}

function readName(value: string | null): string | null {
  if (value === null) return null;
  const text = decodePercent(asUtf8(value)).trim();
  return isReadable(text) && text.length <= maxNameLength ? text : null;
}

/** Decodes a header value as UTF-8, because Node decodes header bytes as Latin-1. */
function asUtf8(value: string): string {
  const text = Buffer.from(value, "latin1").toString("utf8");
  return text.includes("\ufffd") ? value : text;
}

function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
