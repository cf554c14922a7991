import { z } from "zod";
import type { Metadata } from "../users.ts";

export type ProviderEmail = { email: string; verified: boolean; primary: boolean };
export type ProviderTokens = { accessToken: string; refreshToken: string };

/** What a provider says of someone: its subject, their addresses, and claims for the identity. */
export type Profile = { subject: string; emails: ProviderEmail[]; claims: Metadata };

/** A text of a provider's; absent and null are the empty one. */
export const text = z
  .string()
  .nullish()
  .transform((value) => value ?? "");

/** True or false of a provider's; absent and null are false. */
export const flag = z
  .boolean()
  .nullish()
  .transform((value) => value ?? false);

/** The one address of someone; none where the provider names none. */
export function onlyEmail(email: string, verified: boolean): ProviderEmail[] {
  return email ? [{ email, verified, primary: true }] : [];
}

/** The claims that an identity keeps: those that are there, and what is known of the address. */
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
