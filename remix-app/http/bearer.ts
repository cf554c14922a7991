const bearer = /^Bearer +([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*)$/i;

/** The JWT of an Authorization header (RFC 6750 §2.1), not yet verified. Null where the header holds anything else. */
export function bearerToken(authorization: string | null): string | null {
  return bearer.exec(authorization ?? "")?.[1] ?? null;
}
