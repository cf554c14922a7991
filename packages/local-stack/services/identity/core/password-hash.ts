/** A stored password hash. Sizes and costs are those of its algorithm. */
export type PasswordHash =
  | { algorithm: "bcrypt" }
  | {
      algorithm: "argon2i" | "argon2id";
      memoryKib: number;
      passes: number;
      lanes: number;
      salt: Buffer;
      hash: Buffer;
    }
  | {
      algorithm: "fbscrypt";
      /** The binary logarithm of scrypt's cost N. */
      memoryCost: number;
      /** scrypt's block size. Firebase calls it rounds. */
      rounds: number;
      lanes: number;
      salt: Buffer;
      saltSeparator: Buffer;
      signerKey: Buffer;
      hash: Buffer;
    };

const bcryptForm = /^\$2[abxy]\$(?:0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}$/;
const argon2Form = /^\$(argon2i|argon2id)\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([^$]+)\$([^$]+)$/;
const fbscryptForm = /^\$fbscrypt\$v=1,n=(\d+),r=(\d+),p=(\d+)(?:,ss=([^,$]+))?(?:,sk=([^$]+))?\$([^$]+)\$(.+)$/;

const maxArgon2MemoryKib = 1024 * 1024;
const maxArgon2Passes = 20;
const maxArgon2Lanes = 16;
const maxScryptLanes = 255;

/**
 * Parses a hash in one of the forms that Supabase Auth verifies: bcrypt, argon2 in PHC form, and Firebase's scrypt. The
 * forms and limits are those of its internal/crypto/password.go. Of argon2 with a cost of zero, which Supabase Auth
 * accepts but cannot verify, returns undefined.
 * @returns the hash, or undefined if the text is not one
 */
export function parsePasswordHash(text: string): PasswordHash | undefined {
  if (bcryptForm.test(text)) return { algorithm: "bcrypt" };
  return parseArgon2(text) ?? parseFbscrypt(text);
}

function parseArgon2(text: string): PasswordHash | undefined {
  const [, algorithm, m, t, p, saltText = "", hashText = ""] = argon2Form.exec(text) ?? [];
  const [memoryKib, passes, lanes] = [Number(m), Number(t), Number(p)];
  const [salt, hash] = [decodeBase64(saltText, "raw"), decodeBase64(hashText, "raw")];
  if (algorithm !== "argon2i" && algorithm !== "argon2id") return undefined;
  if (!salt || !hash) return undefined;
  const isAllowed =
    memoryKib <= maxArgon2MemoryKib &&
    isBetween(passes, { min: 1, max: maxArgon2Passes }) &&
    isBetween(lanes, { min: 1, max: maxArgon2Lanes });
  return isAllowed ? { algorithm, memoryKib, passes, lanes, salt, hash } : undefined;
}

function parseFbscrypt(text: string): PasswordHash | undefined {
  const [matched, n, r, p, separatorText = "", keyText = "", saltText = "", hashText = ""] =
    fbscryptForm.exec(text) ?? [];
  if (matched === undefined) return undefined;
  const [memoryCost, rounds, lanes] = [Number(n), Number(r), Number(p)];
  const [saltSeparator, signerKey] = [decodeBase64(separatorText, "padded"), decodeBase64(keyText, "padded")];
  const [salt, hash] = [decodeBase64(saltText, "padded"), decodeBase64(hashText, "padded")];
  if (!saltSeparator || !signerKey || !salt || !hash) return undefined;
  const isAllowed =
    isBetween(memoryCost, { min: 1, max: 2 ** 32 - 1 }) &&
    isBetween(rounds, { min: 1, max: Number.MAX_SAFE_INTEGER }) &&
    isBetween(lanes, { min: 1, max: maxScryptLanes });
  return isAllowed
    ? { algorithm: "fbscrypt", memoryCost, rounds, lanes, salt, saltSeparator, signerKey, hash }
    : undefined;
}

function isBetween(value: number, { min, max }: { min: number; max: number }): boolean {
  return value >= min && value <= max;
}

/** Decodes RFC 4648 base64 without skipping characters, as Node would. Returns undefined if the text is not base64. */
function decodeBase64(text: string, padding: "padded" | "raw"): Buffer | undefined {
  const isBase64 =
    padding === "raw"
      ? /^[A-Za-z0-9+/]*$/.test(text) && text.length % 4 !== 1
      : /^[A-Za-z0-9+/]*={0,2}$/.test(text) && text.length % 4 === 0;
  return isBase64 ? Buffer.from(text, "base64") : undefined;
}
