import { getDomain } from "tldts";

export interface RelyingPartyOptions {
  origin: string;
  /** The domain that sibling apps share. Used only if the origin's host is below it. */
  parentDomain?: string | undefined;
}

/**
 * Returns the relying party of this origin's passkeys: the registrable parent domain, by configuration or by the public
 * suffix list. For a host without a registrable domain, such as localhost, returns the host itself.
 */
export function relyingPartyId({ origin, parentDomain }: RelyingPartyOptions): string {
  const { hostname } = new URL(origin);
  if (parentDomain !== undefined && (hostname === parentDomain || hostname.endsWith(`.${parentDomain}`))) {
    return parentDomain;
  }
  // Counts a private suffix such as github.io as a public suffix, as browsers do.
  return getDomain(hostname, { allowPrivateDomains: true }) ?? hostname;
}

/** The identity backend's relying party, and the site whose relying party it must match. */
export interface RelyingPartyCheck extends RelyingPartyOptions {
  /** The relying party ID in the passkey options that the identity backend returned. */
  reported: string | undefined;
}

/** Returns a message for the operator if passkeys cannot work with these options, or null if they can. */
export function relyingPartyFault({ reported, ...options }: RelyingPartyCheck): string | null {
  const expected = relyingPartyId(options);
  if (reported === expected) return null;
  return (
    `passkeys are refused: the identity backend's relying party is ${JSON.stringify(reported ?? "")}, and passkeys of ` +
    `${options.origin} belong to ${JSON.stringify(expected)}. Set its WebAuthn RP ID to that, with ${options.origin} ` +
    "among its RP origins, or correct BASE_URL and PARENT_DOMAIN here."
  );
}
