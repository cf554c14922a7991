import { z } from "zod";
import type { Profile } from "./profile.ts";

const text = z.string().nullish();
const posted = z.looseObject({ name: z.looseObject({ firstName: text, lastName: text }).nullish() });

/**
 * Adds the name to an Apple profile. The ID token lacks it, and only the first sign-in's response has it in `user`. It
 * is not verified.
 * @throws Error if it has an invalid shape
 */
export function withAppleName(profile: Profile, user: string): Profile {
  const { name } = posted.parse(JSON.parse(user));
  const whole = `${name?.firstName ?? ""} ${name?.lastName ?? ""}`.trim();
  return { ...profile, claims: { ...profile.claims, name: whole, full_name: whole } };
}
