import { type PasswordHash, parsePasswordHash } from "@gatehousehq/local-stack/services/identity/core/password-hash";
import { z } from "zod";

export const providers = ["auth0", "clerk", "firebase"] as const;
export type Provider = (typeof providers)[number];

/** What an export has that the import leaves out. */
export type Omission = "email" | "identities" | "metadata" | "mfa" | "other_emails" | "phone" | "picture" | "username";

/** A user of an export, as the import creates one. */
export type SourceUser = {
  sourceId: string;
  email: string;
  emailVerified: boolean;
  /** The hash in a form that Supabase Auth verifies, or why there is none. */
  password: { hash: string } | { missing: "no_password" | "unsupported_hash" };
  name: string | undefined;
  picture: string | undefined;
  disabled: boolean;
  omitted: Omission[];
};

/** A record that does not describe an account that can be created. */
export class UnusableRecord extends Error {
  readonly reason: "malformed" | "no_email";
  readonly sourceId: string | undefined;

  constructor(reason: "malformed" | "no_email", { message, sourceId }: { message: string; sourceId?: string }) {
    super(message);
    this.name = "UnusableRecord";
    this.reason = reason;
    this.sourceId = sourceId;
  }
}

/** The profile fields that people fill in: a value of another type counts as missing. */
export const optionalText = z
  .string()
  .trim()
  .nullish()
  .catch(null)
  .transform((text) => text || undefined);

/** Display names and pictures are bounded, because every access token carries them. */
const maxNameLength = 80;
const maxPictureLength = 1_024;

type Fields = Omit<SourceUser, "email" | "password"> & { email: string | undefined; hash: string | undefined };

/**
 * Completes a user that a format has read.
 * @throws UnusableRecord if the user has no email
 */
export function createSourceUser({ email, hash, name, picture, omitted, ...user }: Fields): SourceUser {
  if (email === undefined) {
    throw new UnusableRecord("no_email", { message: "the user has no email", sourceId: user.sourceId });
  }
  const hasPicture = picture !== undefined && /^https:\/\//.test(picture) && picture.length <= maxPictureLength;
  return {
    ...user,
    email,
    password: readPassword(hash),
    // Auth0 shows a user without a name by email, which members of a workspace should not see.
    name: name?.toLowerCase() === email.toLowerCase() ? undefined : name?.slice(0, maxNameLength),
    picture: hasPicture ? picture : undefined,
    omitted: [...omitted, ...(picture !== undefined && !hasPicture ? (["picture"] as const) : [])],
  };
}

function readPassword(hash: string | undefined): SourceUser["password"] {
  if (!hash) return { missing: "no_password" };
  const parsed = parsePasswordHash(hash);
  return parsed && isAffordable(parsed, hash) ? { hash } : { missing: "unsupported_hash" };
}

const maxBcryptCost = 14;
const maxArgon2MemoryKib = 256 * 1024;
/** Of memory and passes, about a second of work. */
const maxArgon2Work = 1024 * 1024;
/** Limits: firebase.google.com/docs/reference/admin/dotnet/class/firebase-admin/auth/hash/scrypt */
export const maxScrypt = { memoryCost: 14, rounds: 8 };

/**
 * Returns whether the backend verifies a hash in a few seconds at most. Anyone who knows an email can make it verify the
 * hash: bcrypt's highest cost takes days, and scrypt's more memory than there is.
 */
function isAffordable(parsed: PasswordHash, text: string): boolean {
  switch (parsed.algorithm) {
    case "bcrypt":
      return Number(text.slice(4, 6)) <= maxBcryptCost;
    case "argon2i":
    case "argon2id":
      return parsed.memoryKib <= maxArgon2MemoryKib && parsed.memoryKib * parsed.passes <= maxArgon2Work;
    case "fbscrypt":
      return parsed.memoryCost <= maxScrypt.memoryCost && parsed.rounds <= maxScrypt.rounds && parsed.lanes === 1;
  }
}

/** Parses a record. @throws UnusableRecord that names the fields, never their values */
export function parseRecord<Schema extends z.ZodType>(schema: Schema, record: unknown): z.output<Schema> {
  const parsed = schema.safeParse(record);
  if (parsed.success) return parsed.data;
  const fields = new Set(parsed.error.issues.map(({ path }) => path.join(".") || "the record"));
  throw new UnusableRecord("malformed", { message: `not as expected: ${[...fields].join(", ")}` });
}

/** Returns the omissions whose condition is true. */
export function omissions(conditions: Partial<Record<Omission, boolean>>): Omission[] {
  return (Object.keys(conditions) as Omission[]).filter((omission) => conditions[omission]);
}
