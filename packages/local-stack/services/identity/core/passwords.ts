import { hash, parseOptions, verify } from "@node-rs/bcrypt";
import type { Config } from "../config/config.ts";
import { AuthError, invalid, type WeaknessReason } from "./errors.ts";

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
  return storedHash ? verify(password, storedHash) : false;
}

/** Returns whether this server can check a stored hash. */
export function isSupportedHash(storedHash: string): boolean {
  try {
    parseOptions(storedHash);
    return true;
  } catch {
    return false;
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
