import { isBearer } from "./authorization.ts";

const safeMethods = new Set(["GET", "HEAD", "OPTIONS"]);

/** Whether a method changes nothing (RFC 9110 §9.2.1). */
export function isSafe(method: string): boolean {
  return safeMethods.has(method);
}

/**
 * Whether a request may change state as far as its origin goes. One with a Bearer token may: browsers do not attach
 * those by themselves, as they do Basic credentials, and such a request never uses its cookies.
 * @param allowedOrigins configured, never derived from Host or X-Forwarded-Host
 */
export function originAllowed(request: Request, allowedOrigins: readonly string[]): boolean {
  const { method, headers } = request;
  if (isSafe(method) || isBearer(headers.get("authorization"))) return true;
  const site = headers.get("sec-fetch-site");
  if (site !== null) return site === "same-origin";
  const origin = headers.get("origin");
  return origin !== null && allowedOrigins.includes(origin);
}

/** Whether a request says nothing of the site it comes from, as no browser does that changes state. */
export function isServer({ headers }: Request): boolean {
  return headers.get("sec-fetch-site") === null && headers.get("origin") === null;
}
