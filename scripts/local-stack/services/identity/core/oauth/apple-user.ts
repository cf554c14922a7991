import { z } from "zod";
import type { Profile } from "./profile.ts";

const text = z.string().nullish();
const posted = z.looseObject({ name: z.looseObject({ firstName: text, lastName: text }).nullish() });

/**
 * Adds the name to a profile of Apple's, which its ID token lacks: at somebody's first sign-in alone, the answer has
 * it in `user`. Nobody vouches for it.
 * @throws Error when it is of another shape
 */
export function withAppleName(profile: Profile, user: string): Profile {
  const { name } = posted.parse(JSON.parse(user));
  const whole = `${name?.firstName ?? ""} ${name?.lastName ?? ""}`.trim();
  return { ...profile, claims: { ...profile.claims, name: whole, full_name: whole } };
}
