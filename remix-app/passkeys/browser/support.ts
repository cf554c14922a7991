import { browserSupportsWebAuthn } from "@simplewebauthn/browser";

/** Why this page cannot use passkeys; null where it can. */
export function whyUnsupported(): string | null {
  if (!window.isSecureContext) return "Passkeys need a secure connection. Open this page over HTTPS.";
  if (!browserSupportsWebAuthn()) return "This browser doesn’t support passkeys.";
  return null;
}
