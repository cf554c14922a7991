/**
 * The prefixes of the gateway's credentials. A credential consists of a prefix, 12 lookup characters, `_`, 32 random
 * bytes in base64url, and 6 checksum characters.
 */
const prefixes = { key: "ttr_ai_", app_token: "ttr_app_" } as const;

/** The kind that a credential's prefix states. The names match `ai.runs.credential_source`. */
export type AiCredentialKind = keyof typeof prefixes;

/**
 * A new credential. `text` is shown once and never stored. `lookup` is not secret. The database stores only `lookup`
 * and `hash`.
 */
export type NewAiCredential = { text: string; lookup: string; hash: Uint8Array<ArrayBuffer> };

const secretBytes = 32;
const lookupLength = 12;
const checksumLength = 6;
/** 32 characters that are easy to tell apart. A random byte selects each with the same probability. */
const lookupAlphabet = "abcdefghijkmnpqrstuvwxyz23456789";
const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const shape = /^(ttr_ai_|ttr_app_)[A-Za-z0-9]{12}_[A-Za-z0-9_-]{43}[0-9A-Za-z]{6}$/;

/** Creates a `ttr_ai_` key. */
export function createAiKey(): Promise<NewAiCredential> {
  return createAiCredential("key");
}

function randomBytes(length: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(length));
}

/**
 * Creates a credential.
 * @param source returns unguessable bytes; called for the lookup part first, then for the secret
 */
export async function createAiCredential(kind: AiCredentialKind, source = randomBytes): Promise<NewAiCredential> {
  const lookup = [...source(lookupLength)].map((byte) => lookupAlphabet.charAt(byte % lookupAlphabet.length)).join("");
  const body = `${prefixes[kind]}${lookup}_${base64url(source(secretBytes))}`;
  const text = body + checksum(body);
  return { text, lookup, hash: await hashAiCredential(text) };
}

/**
 * Returns the kind of a credential by its format and checksum alone.
 * @returns undefined for a text that we can't have issued, so that mistyped credentials never reach the database
 */
export function aiCredentialKind(text: string): AiCredentialKind | undefined {
  const prefix = shape.exec(text)?.[1];
  if (!prefix || checksum(text.slice(0, -checksumLength)) !== text.slice(-checksumLength)) return undefined;
  return prefix === prefixes.key ? "key" : "app_token";
}

/** Returns the SHA-256 of a credential's text. The secret has 256 random bits, so no slow hash is needed. */
export async function hashAiCredential(text: string): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}

const crcOfByte = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  return crc;
});

/**
 * Returns the CRC-32 of a text (ISO 3309, as in zlib) in base 62. It detects typing errors and is not a security
 * measure.
 */
function checksum(text: string): string {
  let crc = 0xffffffff;
  for (let index = 0; index < text.length; index++) {
    crc = (crc >>> 8) ^ (crcOfByte[(crc ^ text.charCodeAt(index)) & 0xff] ?? 0);
  }
  let rest = (crc ^ 0xffffffff) >>> 0;
  let digits = "";
  for (let place = 0; place < checksumLength; place++) {
    digits = base62.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}
