import { getDomain } from "tldts";

export interface RelyingPartyOptions {
  /** The web origin. */
  origin: string;
  /** The domain that sibling apps share; it counts where the origin's host lies under it. */
  parentDomain?: string | undefined;
}

/**
 * The relying party that passkeys of this origin belong to: the registrable parent domain, by setting or by the public
 * suffix list. A host without one, such as localhost, stands for itself.
 */
export function relyingPartyId({ origin, parentDomain }: RelyingPartyOptions): string {
  const { hostname } = new URL(origin);
  if (parentDomain !== undefined && (hostname === parentDomain || hostname.endsWith(`.${parentDomain}`))) {
    return parentDomain;
  }
  // As in browsers: a suffix under which strangers register their hosts is no one's parent domain.
  return getDomain(hostname, { allowPrivateDomains: true }) ?? hostname;
}

/** What the identity backend takes for the relying party, against what this site needs. */
export interface RelyingPartyCheck extends RelyingPartyOptions {
  /** As the identity backend's options name it. */
  reported: string | undefined;
}

/** Why ceremonies with these options cannot work, for the operator; null where they can. */
export function relyingPartyFault({ reported, ...options }: RelyingPartyCheck): string | null {
  const expected = relyingPartyId(options);
  if (reported === expected) return null;
  return (
    `passkeys are refused: the identity backend's relying party is ${JSON.stringify(reported ?? "")}, and passkeys of ` +
    `${options.origin} belong to ${JSON.stringify(expected)}. Set its WebAuthn RP ID to that, with ${options.origin} ` +
    "among its RP origins, or correct BASE_URL and PARENT_DOMAIN here."
  );
}
