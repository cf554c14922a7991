import { hmac } from "../keys/derived-key.ts";
import type { AccountKeys } from "./account-keys.ts";
import { type StoredSession, storedSession } from "./session-cookie.ts";

/** Whose session is sealed, and for which browser: it opens as that alone. */
export interface SealedFor {
  deviceId: string;
  userId: string;
}

/** A session as the vault keeps it. */
export interface Sealed {
  /** base64url of nonce, ciphertext and tag. */
  sealed: string;
  keyId: string;
  /** Keyed hash of the refresh token within. */
  tag: string;
}

const nonceBytes = 12;
const tagCharacters = 32;

/** Seals a session: AES-256-GCM with device, user and key as associated data. */
export async function sealSession(
  session: StoredSession,
  { keys, ...owner }: SealedFor & { keys: AccountKeys },
): Promise<Sealed> {
  const { id: keyId, key } = keys.vault.current;
  const iv = crypto.getRandomValues(new Uint8Array(nonceBytes));
  const text = new TextEncoder().encode(JSON.stringify(storedSession.parse(session)));
  const sealed = await crypto.subtle.encrypt(algorithm(iv, { ...owner, keyId }), await importKey(key, "encrypt"), text);
  return {
    sealed: Buffer.concat([iv, new Uint8Array(sealed)]).toString("base64url"),
    keyId,
    tag: tagOf(session, keys),
  };
}

/**
 * Opens what the vault keeps.
 * @returns null where it does not open: changed, cut, of another device or user, or of a key that is not listed any more
 */
export async function openSession(
  { sealed, keyId }: Pick<Sealed, "sealed" | "keyId">,
  { keys, ...owner }: SealedFor & { keys: AccountKeys },
): Promise<StoredSession | null> {
  const key = keys.vault.find(keyId);
  if (!key) return null;
  const bytes = Buffer.from(sealed, "base64url");
  const iv = new Uint8Array(bytes.subarray(0, nonceBytes));
  try {
    const text = await crypto.subtle.decrypt(
      algorithm(iv, { ...owner, keyId }),
      await importKey(key, "decrypt"),
      new Uint8Array(bytes.subarray(nonceBytes)),
    );
    return storedSession.parse(JSON.parse(new TextDecoder().decode(text)));
  } catch {
    return null;
  }
}

/** By what a session's refresh token is known from others, to who has the key. */
export function tagOf({ refresh_token }: Pick<StoredSession, "refresh_token">, { tag }: AccountKeys): string {
  return hmac(tag.current.key, refresh_token).toString("base64url").slice(0, tagCharacters);
}

function algorithm(iv: Uint8Array<ArrayBuffer>, { deviceId, userId, keyId }: SealedFor & { keyId: string }) {
  const additionalData = new TextEncoder().encode(`gatehouse account vault\n${deviceId}\n${userId}\n${keyId}`);
  return { name: "AES-GCM", iv, additionalData };
}

function importKey(key: Uint8Array<ArrayBuffer>, use: "encrypt" | "decrypt"): Promise<CryptoKey> {
  return crypto.subtle.importKey("raw", key, "AES-GCM", false, [use]);
}
