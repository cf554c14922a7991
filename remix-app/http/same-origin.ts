const safeMethods = new Set(["GET", "HEAD", "OPTIONS"]);

/**
 * Whether a request may change state as far as its origin goes (api.md, Area A). One with an Authorization header
 * may: browsers do not attach those by themselves, and such a request never uses its cookies.
 * @param allowedOrigins configured, never derived from Host or X-Forwarded-Host
 */
export function originAllowed(request: Request, allowedOrigins: readonly string[]): boolean {
  if (safeMethods.has(request.method) || request.headers.has("authorization")) return true;
  const site = request.headers.get("sec-fetch-site");
  if (site !== null) return site === "same-origin";
  const origin = request.headers.get("origin");
  return origin !== null && allowedOrigins.includes(origin);
}
