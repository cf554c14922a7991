import { browserSupportsWebAuthn } from "@simplewebauthn/browser";

/** Returns why this page cannot use passkeys, or null if it can. */
export function unsupportedReason(): string | null {
  if (!window.isSecureContext) return "Passkeys need a secure connection. Open this page over HTTPS.";
  if (!browserSupportsWebAuthn()) return "This browser doesn’t support passkeys.";
  return null;
}
