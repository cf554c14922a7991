import { z } from "zod";
import type { User } from "./user.ts";

/** Whether a way to sign in may be added directly at the identity backend, and if not, why and where instead. */
const additionRule = z.object({
  allowed: z.boolean(),
  reason: z.enum(["authenticator_exists"]).nullable(),
  /** The page that adds it, with a step-up. */
  url: z.url(),
});
export const directAdditions = z.object({ authenticator: additionRule, passkey: additionRule, provider: additionRule });

/**
 * Returns what an app may add to its user's account directly at the identity backend. The backend itself refuses most
 * of these calls only with status 500, so an app asks first. The database has the rule (`private.guard_addition`).
 */
export function directAdditionsOf(
  { mfa }: Pick<User, "mfa">,
  { BASE_URL }: { BASE_URL: string },
): z.output<typeof directAdditions> {
  const url = `${BASE_URL}/settings/security`;
  const one = mfa.enrolled
    ? { allowed: false, reason: "authenticator_exists" as const, url }
    : { allowed: true, reason: null, url };
  return { authenticator: one, passkey: one, provider: one };
}
