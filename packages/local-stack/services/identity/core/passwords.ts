import { argon2, createCipheriv, scrypt, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";
import { hash, verify } from "@node-rs/bcrypt";
import type { Config } from "../config/config.ts";
import { AuthError, invalid, unexpected, type WeaknessReason } from "./errors.ts";
import { type PasswordHash, parsePasswordHash } from "./password-hash.ts";

const deriveArgon2 = promisify(argon2);
const deriveScrypt = promisify<string, Buffer, number, object, Buffer>(scrypt);

/** bcrypt ignores everything beyond this length. */
const maxPasswordBytes = 72;

/** @throws AuthError 400 validation_failed over 72 bytes */
function requireHashable(password: string): void {
  if (Buffer.byteLength(password) > maxPasswordBytes) {
    throw invalid(`Password cannot be longer than ${maxPasswordBytes} characters`);
  }
}

/** Hashes a password off the main thread. */
export function hashPassword(password: string, config: Pick<Config, "GOTRUE_PASSWORD_HASH_COST">): Promise<string> {
  requireHashable(password);
  return hash(password, { cost: config.GOTRUE_PASSWORD_HASH_COST, version: "2a" });
}

/** Compares a password with a stored hash. Returns false for an account without a password. */
export async function passwordMatches(password: string, storedHash: string | null): Promise<boolean> {
  if (!storedHash) return false;
  const stored = parsePasswordHash(storedHash);
  if (!stored || stored.algorithm === "bcrypt") return verify(password, storedHash);
  const derived =
    stored.algorithm === "fbscrypt" ? await firebaseScrypt(password, stored) : await argon2Key(password, stored);
  return derived.length === stored.hash.length && timingSafeEqual(derived, stored.hash);
}

type Argon2Hash = Extract<PasswordHash, { algorithm: "argon2i" | "argon2id" }>;
type FirebaseHash = Extract<PasswordHash, { algorithm: "fbscrypt" }>;

function argon2Key(password: string, stored: Argon2Hash): Promise<Buffer> {
  return deriveArgon2(stored.algorithm, {
    message: password,
    nonce: stored.salt,
    memory: stored.memoryKib,
    passes: stored.passes,
    parallelism: stored.lanes,
    tagLength: stored.hash.length,
  });
}

const scryptKeyBytes = 32;

function scryptMemoryBytes({ memoryCost, rounds, lanes }: FirebaseHash): number {
  return 128 * rounds * (2 ** memoryCost + lanes + 2);
}

/** Encrypts the project's signer key with a key derived from the password (github.com/firebase/scrypt). */
async function firebaseScrypt(password: string, stored: FirebaseHash): Promise<Buffer> {
  const { memoryCost, rounds, lanes, salt, saltSeparator, signerKey } = stored;
  const key = await deriveScrypt(password, Buffer.concat([salt, saltSeparator]), scryptKeyBytes, {
    N: 2 ** memoryCost,
    r: rounds,
    p: lanes,
    maxmem: scryptMemoryBytes(stored),
  });
  const cipher = createCipheriv("aes-256-ctr", key, Buffer.alloc(16));
  return Buffer.concat([cipher.update(signerKey), cipher.final()]);
}

const maxScryptMemoryBytes = 2 ** 30;

/** Limits of OpenSSL, which Supabase Auth does not have. */
function canVerify(stored: PasswordHash): boolean {
  switch (stored.algorithm) {
    case "bcrypt":
      return true;
    case "fbscrypt":
      return scryptMemoryBytes(stored) <= maxScryptMemoryBytes;
    default:
      return stored.salt.length >= 8 && stored.hash.length >= 4 && stored.memoryKib >= 8 * stored.lanes;
  }
}

/**
 * Requires a hash that Supabase Auth accepts and that this server can verify.
 * @throws AuthError 500 unexpected_failure, like Supabase Auth; 501 not_implemented
 */
export function requireUsableHash(text: string): void {
  const parsed = parsePasswordHash(text);
  if (!parsed) throw unexpected("Error creating user", new Error("not a password hash"));
  if (!canVerify(parsed)) {
    throw new AuthError(501, "not_implemented", "The local identity server cannot verify this hash");
  }
}

type Rules = Pick<Config, "GOTRUE_PASSWORD_MIN_LENGTH" | "GOTRUE_PASSWORD_REQUIRED_CHARACTERS">;

/**
 * Checks a password against the rules.
 * @returns the error for a weak password, or undefined
 * @throws AuthError 400 validation_failed if the password is longer than 72 bytes
 */
export function passwordWeakness(password: string, rules: Rules): AuthError | undefined {
  requireHashable(password);
  const reasons: WeaknessReason[] = [];
  const messages: string[] = [];
  if (Buffer.byteLength(password) < rules.GOTRUE_PASSWORD_MIN_LENGTH) {
    reasons.push("length");
    messages.push(`Password should be at least ${rules.GOTRUE_PASSWORD_MIN_LENGTH} characters.`);
  }
  const sets = rules.GOTRUE_PASSWORD_REQUIRED_CHARACTERS;
  if (sets.some((set) => !Array.from(set).some((character) => password.includes(character)))) {
    reasons.push("characters");
    messages.push(`Password should contain at least one character of each: ${sets.join(", ")}.`);
  }
  return reasons.length > 0 ? new AuthError(422, "weak_password", messages.join(" "), { reasons }) : undefined;
}

/** Requires a password that satisfies the rules. @throws AuthError 422 weak_password, 400 validation_failed */
export function requireStrong(password: string, rules: Rules): void {
  const weakness = passwordWeakness(password, rules);
  if (weakness) throw weakness;
}
