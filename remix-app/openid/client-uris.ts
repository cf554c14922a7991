import { isLoopback } from "#shared/loopback.ts";
import { isPrivateHost } from "#shared/private-addresses.ts";

/** The same limit as that of authorization requests and codes. */
export const maxUriLength = 2_000;
/** The same limit as in `private.openid_clients`. */
export const maxUris = 20;

/**
 * Lines end with CRLF. Allows one line more than the maximum, so that the form can report that there are too many URIs.
 */
const maxListLength = (maxUris + 1) * (maxUriLength + 2);

/** Limits of a form with two lists of URIs. Each character may be percent-encoded. */
export const uriFormLimits = {
  maxValueLength: maxListLength,
  maxBytes: 2 * 3 * maxListLength + 16 * 1024,
};

/**
 * Returns what is wrong with a redirect URI, as a message for the person who registers it, or null if it is valid.
 * Redirect URIs are compared as exact strings (RFC 9700 section 4.1.3), so no pattern is accepted.
 */
export function redirectUriFault(uri: string, { isPublic }: { isPublic: boolean }): string | null {
  const url = /^[\x21-\x7e]+$/.test(uri) ? URL.parse(uri) : null;
  if (!url) return `${uri} isn’t an absolute URI, such as https://app.example.com/callback`;
  if (uri.length > maxUriLength) return `A redirect URI has at most ${maxUriLength} characters`;
  if (uri.includes("#")) return `${uri} has a fragment (#), which a redirect URI must not have`;
  if (uri.includes("*")) return `${uri} has a wildcard (*): register each address in full`;
  if (url.username || url.password) return `${uri} holds a username or password`;
  // Clients and URL parsers must read the same URL from the text.
  if (url.href !== uri && url.href !== `${uri}/`) return `${uri} must be written as ${url.href}`;
  if (url.protocol === "https:") return null;
  if (url.protocol === "http:") {
    return isLoopback(url.hostname) ? null : `${uri} must use https: only loopback addresses may use http`;
  }
  // RFC 8252 section 7.1 requires a reversed domain name, so the scheme contains a dot.
  if (!url.protocol.includes(".")) {
    return `${uri} must use https, or a private-use scheme with a dot, such as com.example.app:`;
  }
  return isPublic ? null : `${uri} has a private-use scheme, which is for public clients only`;
}

/**
 * Returns the display name of a redirect URI's target. Omits the host in a private-use scheme, because it does not name a
 * server: com.example.app://bank.example would look like bank.example.
 */
export function describeRedirectTarget(redirectUri: string): string {
  const url = URL.parse(redirectUri);
  return url && /^https?:$/.test(url.protocol) ? url.host : "an app on this device";
}

/** Returns what is wrong with the URL of a back-channel logout, or null. */
export function logoutUrlFault(uri: string): string | null {
  const url = /^[\x21-\x7e]+$/.test(uri) ? URL.parse(uri) : null;
  if (!url || !/^https?:$/.test(url.protocol)) {
    return `${uri} isn’t an absolute URL, such as https://app.example.com/backchannel-logout`;
  }
  if (uri.length > maxUriLength) return `A logout URL has at most ${maxUriLength} characters`;
  if (uri.includes("#")) return `${uri} has a fragment (#), which a logout URL must not have`;
  if (url.username || url.password) return `${uri} holds a username or password`;
  // The database compares the text with a pattern of lower-case hosts.
  if (!`${uri}/`.startsWith(`${url.origin}/`))
    return `${uri} must begin with ${url.origin}, in lower case and without a default port`;
  if (isLoopback(url.hostname)) return null;
  // Refuses at once what requests refuse when they connect (http/public-request.ts).
  if (isPrivateHost(url.hostname)) return `${uri} has a private address, which the platform doesn’t call`;
  return url.protocol === "https:" ? null : `${uri} must use https: only loopback addresses may use http`;
}
