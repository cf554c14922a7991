import { calculateJwkThumbprint, importJWK } from "jose";
import { z } from "zod";

/**
 * The algorithms of client assertions (RFC 8414, `token_endpoint_auth_signing_alg_values_supported`), all asymmetric.
 * RFC 9864 replaces EdDSA with Ed25519, and clients send either.
 */
export const assertionAlgorithms = ["Ed25519", "EdDSA", "ES256", "PS256", "RS256"] as const;

const minRsaBits = 2_048;
/** Longer keys take too long to verify for a request that isn't authenticated yet. */
const maxRsaBits = 4_096;

/** The members that only private keys have (RFC 7518 sections 6.2.2, 6.3.2 and 6.4.1, RFC 8037 section 2). */
const privateMembers = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

const base64url = z.string().regex(/^[A-Za-z0-9_-]{1,700}$/);

/** A public key as it is stored. Other members of the JWK are dropped. */
const publicKey = z.discriminatedUnion("kty", [
  z.object({
    kty: z.literal("RSA"),
    n: base64url,
    e: z.literal("AQAB"),
    // The key's only algorithm. RFC 8725 section 3.1 asks for one key for each algorithm.
    alg: z.enum(["RS256", "PS256"]).default("RS256"),
  }),
  z.object({
    kty: z.literal("EC"),
    crv: z.literal("P-256"),
    x: base64url,
    y: base64url,
    alg: z.literal("ES256").default("ES256"),
  }),
  z.object({
    kty: z.literal("OKP"),
    crv: z.literal("Ed25519"),
    x: base64url,
    alg: z.enum(["Ed25519", "EdDSA"]).default("Ed25519"),
  }),
]);

/** A key that the database returns. `kid` is the one that clients send. */
export const storedKey = publicKey.and(z.object({ kid: z.string() }));
export type StoredKey = z.output<typeof storedKey>;

/** Returns the algorithms that assertions of a key may have. */
export function algorithmsOf({ kty, alg }: Pick<StoredKey, "kty" | "alg">): readonly string[] {
  return kty === "OKP" ? ["Ed25519", "EdDSA"] : [alg];
}

/** What registration demands of the members that state a key's purpose (RFC 7517 sections 4.2 to 4.5). */
const keyPurpose = z.object({
  use: z.literal("sig").optional(),
  key_ops: z
    .array(z.string())
    .refine((operations) => operations.includes("verify"))
    .optional(),
  kid: z
    .string()
    .regex(/^[\x21-\x7e]{1,128}$/)
    .optional(),
});

type ParsedKey = { key: StoredKey } | { fault: string };

/**
 * Parses the public key that somebody registers for a service account. Without a `kid`, the key gets its RFC 7638
 * thumbprint.
 * @param text a JWK (RFC 7517) as JSON
 * @returns the key to store, or a sentence about what is wrong
 */
export async function parsePublicKey(text: string): Promise<ParsedKey> {
  const jwk = parseObject(text);
  if (jwk === null) return { fault: "Enter one public key as JSON: an object with kty" };
  if (Array.isArray(jwk.keys)) return { fault: "Enter one key of the set, not the whole set" };
  if (jwk.kty === "oct") return { fault: "This is a symmetric key. Enter the public key of a key pair" };
  if (privateMembers.some((name) => name in jwk)) {
    return { fault: "This is a private key. Create a new pair, and enter only its public key" };
  }
  const purpose = keyPurpose.safeParse(jwk);
  if (!purpose.success) return { fault: "The key’s use, key_ops or kid doesn’t suit a key that verifies signatures" };
  const known = publicKey.safeParse(jwk);
  if (!known.success) {
    return { fault: "Use an Ed25519 key, a P-256 key, or an RSA key with the exponent 65537 for RS256 or PS256" };
  }
  const { data: key } = known;
  if (key.kty === "RSA") {
    const bits = modulusBits(key.n);
    if (bits < minRsaBits) return { fault: `RSA keys need at least ${minRsaBits} bits. This one has ${bits}` };
    if (bits > maxRsaBits) return { fault: `RSA keys have at most ${maxRsaBits} bits here. This one has ${bits}` };
  }
  try {
    await importJWK(key, key.alg);
  } catch {
    return { fault: "The key’s numbers are not those of a valid key" };
  }
  return { key: { ...key, kid: purpose.data.kid ?? (await calculateJwkThumbprint(key)) } };
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : null;
  } catch {
    return null;
  }
}

function modulusBits(n: string): number {
  const digits = Buffer.from(n, "base64url").toString("hex").replace(/^0+/, "");
  const first = Number.parseInt(digits.slice(0, 1) || "0", 16);
  return Math.max(0, digits.length - 1) * 4 + (first === 0 ? 0 : first.toString(2).length);
}
