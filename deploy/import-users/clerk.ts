import { z } from "zod";
import { createSourceUser, omissions, optionalText, parseRecord, type SourceUser } from "./source-user.ts";

/**
 * A row of the CSV that Clerk's dashboard exports (clerk.com/docs/guides/development/migrating/export-from-clerk). The
 * columns are those of its users' files (github.com/workos/migrate-clerk-users).
 */
const exportedUser = z.looseObject({
  id: z.string().trim().min(1),
  first_name: optionalText,
  last_name: optionalText,
  username: optionalText,
  primary_email_address: z.string(),
  primary_phone_number: optionalText,
  verified_email_addresses: z.string(),
  unverified_email_addresses: z.string(),
  verified_phone_numbers: optionalText,
  unverified_phone_numbers: optionalText,
  totp_secret: optionalText,
  password_digest: z.string(),
  password_hasher: z.string(),
});

/** The columns without which the file is not Clerk's. */
export const clerkColumns = Object.keys(exportedUser.shape);

/** Reads a row of Clerk's CSV. @throws UnusableRecord */
export function readClerkUser(record: unknown): SourceUser {
  const user = parseRecord(exportedUser, record);
  const verified = splitList(user.verified_email_addresses);
  const others = [...verified, ...splitList(user.unverified_email_addresses)];
  const email = user.primary_email_address.trim() || others[0];
  const isEmail = (other: string) => other.toLowerCase() === email?.toLowerCase();
  return createSourceUser({
    sourceId: user.id,
    email,
    emailVerified: verified.some(isEmail),
    hash: convertDigest(user.password_digest.trim(), user.password_hasher.trim()),
    name: [user.first_name, user.last_name].filter(Boolean).join(" ") || undefined,
    picture: undefined,
    disabled: false,
    omitted: omissions({
      mfa: user.totp_secret !== undefined,
      other_emails: others.some((other) => !isEmail(other)),
      phone: (user.primary_phone_number ?? user.verified_phone_numbers ?? user.unverified_phone_numbers) !== undefined,
      username: user.username !== undefined,
    }),
  });
}

function splitList(text: string): string[] {
  return text.split(/[\s,;|]+/).filter((part) => part !== "");
}

/**
 * Returns a digest in Supabase Auth's form. The hashers and their forms are those of Clerk's `POST /users`
 * (clerk.com/docs/reference/backend-api). A peppered bcrypt digest, for example, looks like bcrypt but cannot be
 * verified.
 */
function convertDigest(digest: string, hasher: string): string | undefined {
  switch (hasher) {
    case "bcrypt":
    case "argon2i":
    case "argon2id":
      return digest;
    case "scrypt_firebase": {
      const [hash, salt, signerKey, saltSeparator, rounds, memoryCost] = digest.split("$");
      return `$fbscrypt$v=1,n=${memoryCost},r=${rounds},p=1,ss=${saltSeparator},sk=${signerKey}$${salt}$${hash}`;
    }
    default:
      return digest && `${hasher}:unsupported`;
  }
}
