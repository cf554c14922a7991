import type { Metadata } from "../users.ts";

export type ProviderEmail = { email: string; verified: boolean; primary: boolean };
export type Tokens = { accessToken: string; refreshToken: string; idToken: string };

/** What a provider says of someone: its subject, their addresses, and claims for the identity. */
export type Profile = { subject: string; emails: ProviderEmail[]; claims: Metadata };

export type Provider = {
  authorizationUrl: string;
  tokenUrl: string;
  /** Scopes that are always asked for. */
  scopes: string[];
  /** @throws Error when the provider's answer cannot be had or believed */
  fetchProfile: (tokens: Tokens) => Promise<Profile>;
};

/** The claims that an identity keeps: those that are there, and what is known of the address. */
export function identityClaims({ subject, emails, claims }: Profile): Metadata & { sub: string } {
  const main = emails.find((entry) => entry.primary) ?? emails.at(-1);
  const present = Object.entries(claims).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return {
    ...Object.fromEntries(present),
    sub: subject,
    ...(main ? { email: main.email } : {}),
    email_verified: main?.verified ?? false,
    phone_verified: false,
  };
}
