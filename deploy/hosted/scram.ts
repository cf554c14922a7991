import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";

const iterations = 4_096;

/**
 * Returns the verifier that Postgres stores for a password (RFC 5803). With it, the password itself appears in no
 * statement, and so in no log. ASCII only, so that SASLprep changes nothing.
 */
export function scramVerifier(password: string, salt = randomBytes(16)): string {
  if (!/^[\x21-\x7e]+$/.test(password)) throw new Error("The database password of role gateway must be plain ASCII.");
  const salted = pbkdf2Sync(password, salt, iterations, 32, "sha256");
  const key = (label: string) => createHmac("sha256", salted).update(label).digest();
  const storedKey = createHash("sha256").update(key("Client Key")).digest("base64");
  return `SCRAM-SHA-256$${iterations}:${salt.toString("base64")}$${storedKey}:${key("Server Key").toString("base64")}`;
}
