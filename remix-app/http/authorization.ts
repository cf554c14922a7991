/** The user id and password of a Basic Authorization header (RFC 7617 §2). */
export interface BasicCredentials {
  name: string;
  secret: string;
}

const basic = /^Basic +([A-Za-z0-9+/]{2,512}={0,2})$/i;
// biome-ignore lint/suspicious/noControlCharactersInRegex: RFC 7617 forbids control characters in both parts
const userPassPattern = /^([^:\x00-\x1f\x7f]{1,128}):([^\x00-\x1f\x7f]{1,256})$/;

/** Parses Basic credentials without checking them. Null if the header holds anything else, or either part is empty. */
export function basicCredentials(authorization: string | null): BasicCredentials | null {
  const encoded = basic.exec(authorization ?? "")?.[1];
  if (encoded === undefined) return null;
  const [, name, secret] = userPassPattern.exec(Buffer.from(encoded, "base64").toString("utf8")) ?? [];
  return name === undefined || secret === undefined ? null : { name, secret };
}

/** Returns the Authorization header for Basic credentials. */
export function basicAuthorization({ name, secret }: BasicCredentials): string {
  return `Basic ${Buffer.from(`${name}:${secret}`).toString("base64")}`;
}

/** The Basic challenge, with the realm that RFC 7617 §2 requires. */
export const basicChallenge = 'Basic realm="apps", charset="UTF-8"';

const bearer = /^Bearer +([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*)$/i;

/**
 * Returns the JWT of an Authorization header (RFC 6750 §2.1), not yet verified. Null if the header holds anything else.
 */
export function bearerToken(authorization: string | null): string | null {
  return bearer.exec(authorization ?? "")?.[1] ?? null;
}

const openidBearer = /^Bearer +(gho_[A-Za-z0-9_-]{43})$/i;

/** Returns the access token of an OpenID client in an Authorization header, not yet verified, or null. */
export function openidBearerToken(authorization: string | null): string | null {
  return openidBearer.exec(authorization ?? "")?.[1] ?? null;
}

const serviceBearer = /^Bearer +(ghs_[A-Za-z0-9_-]{43})$/i;

/** Returns the token of a service account in an Authorization header, not yet verified, or null. */
export function serviceBearerToken(authorization: string | null): string | null {
  return serviceBearer.exec(authorization ?? "")?.[1] ?? null;
}

const bearerForms = [bearerToken, openidBearerToken, serviceBearerToken];

/** Returns whether an Authorization header holds a bearer token that a route may accept. */
export function isBearer(authorization: string | null): boolean {
  return bearerForms.some((read) => read(authorization) !== null);
}
