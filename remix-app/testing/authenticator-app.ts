import { createClient } from "@supabase/supabase-js";
import { Secret, TOTP } from "otpauth";

export interface AuthenticatorApp {
  factorId: string;
  name: string;
  secret: string;
}

/**
 * Returns the code that an app shows `steps` half-minutes from now. The codes before and after the current one are
 * accepted too.
 */
export function codeOf({ secret }: Pick<AuthenticatorApp, "secret">, steps = 0): string {
  const totp = new TOTP({ secret: Secret.fromBase32(secret), algorithm: "SHA1", digits: 6, period: 30 });
  return totp.generate({ timestamp: Date.now() + steps * 30_000 });
}

/** Returns codes that are not valid now or within a minute. */
export function wrongCodesOf(app: Pick<AuthenticatorApp, "secret">): string[] {
  const near = new Set([-3, -2, -1, 0, 1, 2, 3, 4].map((steps) => codeOf(app, steps)));
  return Array.from({ length: 20 }, (_, index) => String(index * 50_021).padStart(6, "0")).filter(
    (code) => !near.has(code),
  );
}

/** Enrolls apps one after the other, as a client of the identity backend does. */
export async function enrollApps(
  { url, publishableKey }: { url: string; publishableKey: string },
  { email, password, names }: { email: string; password: string; names: readonly string[] },
): Promise<AuthenticatorApp[]> {
  const { auth } = createClient(url, publishableKey, { auth: { persistSession: false, autoRefreshToken: false } });
  const { error } = await auth.signInWithPassword({ email, password });
  if (error) throw error;
  const apps: AuthenticatorApp[] = [];
  for (const name of names) {
    const { data, error } = await auth.mfa.enroll({ factorType: "totp", friendlyName: name });
    if (error) throw error;
    const app = { factorId: data.id, name, secret: data.totp.secret };
    const { error: refused } = await auth.mfa.challengeAndVerify({ factorId: app.factorId, code: codeOf(app) });
    if (refused) throw refused;
    apps.push(app);
  }
  return apps;
}
