import { z } from "zod";
import type { Profile } from "./profile.ts";

const text = z.string().nullish();
const posted = z.looseObject({ name: z.looseObject({ firstName: text, lastName: text }).nullish() });

/**
 * Adds the name to an Apple profile. Apple's ID token lacks the name: only the first sign-in's response has it, in
 * `user`, where it is not verified.
 * @throws Error if `user` has an invalid shape
 */
export function withAppleName(profile: Profile, user: string): Profile {
  const { name } = posted.parse(JSON.parse(user));
  const fullName = `${name?.firstName ?? ""} ${name?.lastName ?? ""}`.trim();
  return { ...profile, claims: { ...profile.claims, name: fullName, full_name: fullName } };
}
