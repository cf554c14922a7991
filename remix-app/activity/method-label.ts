import { providerLabel } from "../config/oauth-providers.ts";
import { formatDateTime } from "../http/date-text.ts";

const labels: Record<string, string> = {
  password: "Password",
  passkey: "Passkey",
  totp: "Authenticator app",
  email_code: "Code by email",
  email_link: "Link by email",
  // The identity backend's name for a sign-in that bypassed our pages.
  otp: "Code or link by email",
  password_reset: "Password reset by email",
  recovery: "Recovery by email",
  link: "Link from an email",
  code: "Code from an email",
  recovery_code: "Recovery code",
  sign_up: "Sign-up",
  qr: "QR code",
  mobile_approval: "Approval on a phone",
};

/** Returns the label of a method in `public.security_events`: "Password", "GitHub". */
export function methodLabel(method: string): string {
  const [, provider] = /^oauth:(.+)$/.exec(method) ?? [];
  if (provider) return providerLabel(provider);
  return labels[method] ?? method.replaceAll("_", " ");
}

/**
 * Returns a value from the details of a `public.security_events` row, as shown to people: the label of a provider, the end
 * of a ban or the time of a deletion, and any other value unchanged.
 */
export function detailText(name: string, value: string): string {
  if (name === "until" || name === "deletion") return formatDateTime(value);
  return name === "provider" ? providerLabel(value) : value;
}
