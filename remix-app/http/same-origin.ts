import { isBearer } from "./authorization.ts";

const safeMethods = new Set(["GET", "HEAD", "OPTIONS"]);

/** Returns whether a method is safe (RFC 9110 §9.2.1). */
export function isSafe(method: string): boolean {
  return safeMethods.has(method);
}

/**
 * Returns whether a request's origin allows it to change state. A request with a Bearer token is always allowed,
 * because its cookies are not used. Browsers attach Basic credentials by themselves, but never a Bearer token.
 * @param allowedOrigins configured, never derived from Host or X-Forwarded-Host
 */
export function isAllowedOrigin(request: Request, allowedOrigins: readonly string[]): boolean {
  const { method, headers } = request;
  if (isSafe(method) || isBearer(headers.get("authorization"))) return true;
  const site = headers.get("sec-fetch-site");
  if (site !== null) return site === "same-origin";
  const origin = headers.get("origin");
  return origin !== null && allowedOrigins.includes(origin);
}

/**
 * Returns whether a request comes from a server instead of a browser. Browsers send Sec-Fetch-Site or Origin with every
 * state-changing request.
 */
export function isServerRequest({ headers }: Request): boolean {
  return headers.get("sec-fetch-site") === null && headers.get("origin") === null;
}
