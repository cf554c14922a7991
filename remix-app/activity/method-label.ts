const labels: Record<string, string> = {
  password: "Password",
  passkey: "Passkey",
  totp: "Authenticator app",
  email_link: "Link by email",
  password_reset: "Password reset by email",
  recovery: "Recovery by email",
  recovery_code: "Recovery code",
  sign_up: "Sign-up",
  qr: "QR code",
  mobile_approval: "Approval on a phone",
};

const providers: Record<string, string> = { google: "Google", github: "GitHub", apple: "Apple", azure: "Microsoft" };

/** What a method of `public.security_events` is called: "Password", "GitHub". */
export function methodLabel(method: string): string {
  const [, provider] = /^oauth:(.+)$/.exec(method) ?? [];
  if (provider) return providers[provider] ?? `${provider[0]?.toUpperCase()}${provider.slice(1)}`;
  return labels[method] ?? method.replaceAll("_", " ");
}
