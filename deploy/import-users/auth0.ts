import { z } from "zod";
import { createSourceUser, omissions, optionalText, parseRecord, type SourceUser } from "./source-user.ts";

const objectId = z.union([z.string().min(1), z.looseObject({ $oid: z.string().min(1) }).transform(({ $oid }) => $oid)]);
const flag = z.boolean().nullish();

/**
 * A line of the bulk user export (auth0.com/docs/manage-users/user-migration/bulk-user-exports), whose fields are those
 * of a user's profile (auth0.com/docs/manage-users/user-accounts/user-profiles/user-profile-structure).
 */
const exportedUser = z.looseObject({
  user_id: z.string().min(1),
  email: optionalText,
  email_verified: flag,
  blocked: flag,
  name: optionalText,
  given_name: optionalText,
  family_name: optionalText,
  picture: optionalText,
  username: optionalText,
  phone_number: optionalText,
  identities: z
    .array(z.looseObject({ provider: z.string(), user_id: z.union([z.string(), z.number()]).transform(String) }))
    .nullish(),
  multifactor: z.array(z.unknown()).nullish(),
  user_metadata: z.record(z.string(), z.unknown()).nullish(),
  app_metadata: z.record(z.string(), z.unknown()).nullish(),
});

/**
 * A line of the password hashes that Auth0's support exports. `alt_id` is the part of the user's id that its owner
 * chose. Shape: auth0.com/docs/manage-users/user-migration/export-password-hashes-and-mfa-secrets, and its users' files
 * (zitadel.com/docs/guides/migrate/sources/auth0).
 */
const exportedHash = z
  .looseObject({
    _id: objectId,
    alt_id: optionalText,
    email: optionalText,
    email_verified: flag,
    passwordHash: z.string().min(1),
  })
  .transform(({ _id, alt_id, ...rest }) => ({ ...rest, user_id: `auth0|${alt_id ?? _id}` }));

/** Returns the id of the user that a line of the hashes belongs to, and the hash. @throws UnusableRecord */
export function readAuth0Hash(record: unknown): { userId: string; hash: string } {
  const { user_id, passwordHash } = parseRecord(exportedHash, record);
  return { userId: user_id, hash: passwordHash };
}

/**
 * Reads a line of the bulk export, whose hash is in `hashes`, or a line of the exported hashes itself.
 * @throws UnusableRecord
 */
export function readAuth0User(record: unknown, hashes: ReadonlyMap<string, string>): SourceUser {
  const isHash = typeof record === "object" && record !== null && "passwordHash" in record;
  if (isHash) {
    const { user_id, email, email_verified, passwordHash } = parseRecord(exportedHash, record);
    const user = { sourceId: user_id, email, emailVerified: email_verified === true, hash: passwordHash };
    return createSourceUser({ ...user, name: undefined, picture: undefined, disabled: false, omitted: [] });
  }
  const user = parseRecord(exportedUser, record);
  const identities = user.identities ?? [];
  const isDatabase = ({ provider }: { provider: string }) => provider === "auth0";
  // A user who signs in by several ways can have a password under a linked identity.
  const ids = [user.user_id, ...identities.filter(isDatabase).map(({ user_id }) => `auth0|${user_id}`)];
  return createSourceUser({
    sourceId: user.user_id,
    email: user.email,
    emailVerified: user.email_verified === true,
    hash: ids.map((id) => hashes.get(id)).find((hash) => hash !== undefined),
    name: user.name ?? ([user.given_name, user.family_name].filter(Boolean).join(" ") || undefined),
    picture: user.picture,
    disabled: user.blocked === true,
    omitted: omissions({
      identities: identities.length > 0 ? !identities.every(isDatabase) : !user.user_id.startsWith("auth0|"),
      metadata: [user.user_metadata, user.app_metadata].some((data) => Object.keys(data ?? {}).length > 0),
      mfa: (user.multifactor ?? []).length > 0,
      phone: user.phone_number !== undefined,
      username: user.username !== undefined,
    }),
  });
}
