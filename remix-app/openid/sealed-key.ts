import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from "jose";
import { z } from "zod";
import type { KeyRing } from "../crypto/derived-key.ts";

/** RFC 7518 section 3.3 requires 2048 bits or more. */
const modulusLength = 2_048;
const nonceBytes = 12;

export const publicRsaJwk = z.object({ kty: z.literal("RSA"), n: z.string(), e: z.string() });
const privateRsaJwk = publicRsaJwk.extend({
  d: z.string(),
  p: z.string(),
  q: z.string(),
  dp: z.string(),
  dq: z.string(),
  qi: z.string(),
});

/** A signing key as stored in the database. */
export interface SealedKey {
  /** The public key's RFC 7638 thumbprint. */
  kid: string;
  publicJwk: z.infer<typeof publicRsaJwk>;
  /** base64url of nonce, ciphertext and tag. */
  sealedPrivateJwk: string;
  sealingKeyId: string;
}

/** Creates an RSA key for RS256 and seals its private half. */
export async function createSealedKey(ring: KeyRing): Promise<SealedKey> {
  const pair = await generateKeyPair("RS256", { modulusLength, extractable: true });
  const publicJwk = publicRsaJwk.parse(await exportJWK(pair.publicKey));
  const kid = await calculateJwkThumbprint(publicJwk);
  const sealed = await sealPrivateJwk(await exportJWK(pair.privateKey), { kid, ring });
  return { kid, publicJwk, ...sealed };
}

/** Seals a private key: AES-256-GCM by the ring's current key, with the kid as associated data. */
export async function sealPrivateJwk(
  jwk: JWK,
  { kid, ring }: { kid: string; ring: KeyRing },
): Promise<Pick<SealedKey, "sealedPrivateJwk" | "sealingKeyId">> {
  const { id: sealingKeyId, key } = ring.current;
  const iv = crypto.getRandomValues(new Uint8Array(nonceBytes));
  const text = new TextEncoder().encode(JSON.stringify(privateRsaJwk.parse(jwk)));
  const sealed = await crypto.subtle.encrypt(
    getEncryptionParameters(iv, { kid, sealingKeyId }),
    await importKey(key, "encrypt"),
    text,
  );
  return { sealedPrivateJwk: Buffer.concat([iv, new Uint8Array(sealed)]).toString("base64url"), sealingKeyId };
}

/** Opens a private key. Returns null if it was changed, or if the secret that sealed it is not on the ring. */
export async function openPrivateJwk(
  { kid, sealedPrivateJwk, sealingKeyId }: Omit<SealedKey, "publicJwk">,
  ring: KeyRing,
): Promise<JWK | null> {
  const key = ring.find(sealingKeyId);
  if (!key) return null;
  const bytes = Buffer.from(sealedPrivateJwk, "base64url");
  const iv = new Uint8Array(bytes.subarray(0, nonceBytes));
  try {
    const text = await crypto.subtle.decrypt(
      getEncryptionParameters(iv, { kid, sealingKeyId }),
      await importKey(key, "decrypt"),
      new Uint8Array(bytes.subarray(nonceBytes)),
    );
    return privateRsaJwk.parse(JSON.parse(new TextDecoder().decode(text)));
  } catch {
    return null;
  }
}

function getEncryptionParameters(
  iv: Uint8Array<ArrayBuffer>,
  { kid, sealingKeyId }: Pick<SealedKey, "kid" | "sealingKeyId">,
) {
  return {
    name: "AES-GCM",
    iv,
    additionalData: new TextEncoder().encode(`gatehouse signing key\n${kid}\n${sealingKeyId}`),
  };
}

function importKey(key: Uint8Array<ArrayBuffer>, use: "encrypt" | "decrypt"): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", key, "AES-GCM", false, [use]);
}
