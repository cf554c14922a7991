import { z } from "zod";
import type { Metadata } from "../users.ts";

export type ProviderEmail = { email: string; verified: boolean; primary: boolean };
export type ProviderTokens = { accessToken: string; refreshToken: string };

/** A provider's information about a person: subject, emails, and claims for the identity. */
export type Profile = { subject: string; emails: ProviderEmail[]; claims: Metadata };

/** A provider's text; absent and null count as empty. */
export const text = z
  .string()
  .nullish()
  .transform((value) => value ?? "");

/** A provider's boolean; absent and null count as false. */
export const flag = z
  .boolean()
  .nullish()
  .transform((value) => value ?? false);

/** Returns a list with a person's only email. The list is empty if the provider names none. */
export function onlyEmail(email: string, verified: boolean): ProviderEmail[] {
  return email ? [{ email, verified, primary: true }] : [];
}

/**
 * Returns the claims that an identity stores: the provider's non-empty claims, the main email and whether it is
 * verified.
 */
export function identityClaims({ subject, emails, claims }: Profile): Metadata & { sub: string } {
  const main = emails.find((entry) => entry.primary) ?? emails.at(-1);
  const present = Object.entries(claims).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return {
    ...Object.fromEntries(present),
    sub: subject,
    ...(main?.email ? { email: main.email } : {}),
    email_verified: main?.verified ?? false,
    phone_verified: false,
  };
}
