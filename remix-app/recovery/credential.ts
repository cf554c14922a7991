import { createHmac, hkdfSync, randomBytes, randomInt } from "node:crypto";
import type { Env } from "../config/env.server.ts";

/** How long the link and the code in a recovery email can be used (docs/admin-guide.md). */
export const credentialMinutes = 15;
const codeDigits = 6;
const tokenBytes = 32;
const saltBytes = 16;
const keyBytes = 32;

/** The credentials in a recovery email, and their salt and hashes for the database, in hex. */
export interface NewCredential {
  token: string;
  code: string;
  stored: { tokenHash: string; codeSalt: string; codeHash: string };
}

type HashEnv = Pick<Env, "AUTH_RECOVERY_HASH_SECRET" | "SUPABASE_SECRET_KEY">;

/** Generates a link token and a six-digit code. */
export function newCredential(env: HashEnv): NewCredential {
  const token = randomBytes(tokenBytes).toString("base64url");
  const code = String(randomInt(10 ** codeDigits)).padStart(codeDigits, "0");
  const codeSalt = randomBytes(saltBytes).toString("hex");
  return {
    token,
    code,
    stored: { tokenHash: tokenHash(env, token), codeSalt, codeHash: codeHash(env, { code, salt: codeSalt }) },
  };
}

/** Returns the stored hash of a link token. */
export function tokenHash(env: HashEnv, token: string): string {
  return createHmac("sha256", keyOf(env, "recovery link")).update(token).digest("hex");
}

/** Returns the stored hash of a code, with a salt per row, so that equal codes have different hashes. */
export function codeHash(env: HashEnv, { code, salt }: { code: string; salt: string }): string {
  return createHmac("sha256", keyOf(env, "recovery code")).update(Buffer.from(salt, "hex")).update(code).digest("hex");
}

/**
 * Derives a key for one purpose (HKDF, RFC 5869). Production sets its own secret for recovery. Without one, the
 * identity backend's key is used.
 */
function keyOf({ AUTH_RECOVERY_HASH_SECRET, SUPABASE_SECRET_KEY }: HashEnv, purpose: string): Buffer {
  const secret = AUTH_RECOVERY_HASH_SECRET ?? SUPABASE_SECRET_KEY;
  return Buffer.from(hkdfSync("sha256", secret, "", `gatehouse ${purpose}`, keyBytes));
}
