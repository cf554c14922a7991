import { type CryptoKey, compactVerify, decodeProtectedHeader, importJWK, type JWTPayload, SignJWT } from "jose";
import type { Env } from "../config/env.server.ts";
import { type JsonDocument, jsonDocument } from "../http/json-document.ts";
import type { SealedKey } from "./sealed-key.ts";
import { readStoredKeys, type SigningContext } from "./stored-keys.ts";

const algorithm = "RS256";

/**
 * The type of a token that our OpenID provider signs. The signature covers the type, so that a token of one type is
 * never accepted as the other.
 */
export type OwnJwtType = "JWT" | "logout+jwt" | "at+jwt";

interface SigningKeys {
  published: Pick<SealedKey, "kid" | "publicJwk">[];
  signing: { kid: string; key: CryptoKey };
  keySet: JsonDocument;
}

/** Short, because another server may have created a key. */
const cacheMs = 10_000;
const keysByEnv = new WeakMap<Env, { until: number; keys: Promise<SigningKeys> }>();

/** Signs claims with the current key: an ID token (typ `JWT`), a logout token or an access token for a resource. */
export type Signer = (token: { typ: OwnJwtType; claims: JWTPayload }) => Promise<string>;

/**
 * Returns a signer. Call this before redeeming anything that can be used only once.
 * @throws Response 503 UNAVAILABLE without APP_SESSION_SECRET, or if the database does not answer
 */
export async function openSigner(context: SigningContext): Promise<Signer> {
  const { signing } = await getCachedKeys(context);
  return ({ typ, claims }) =>
    new SignJWT(claims).setProtectedHeader({ alg: algorithm, typ, kid: signing.kid }).sign(signing.key);
}

/**
 * Signs one token.
 * @throws Response 503 as {@link openSigner}
 */
export async function signJwt(context: SigningContext, token: Parameters<Signer>[0]): Promise<string> {
  return (await openSigner(context))(token);
}

/**
 * Returns the published keys as a JSON Web Key Set (RFC 7517): the key that signs, the next key, and keys whose tokens
 * may still be in use.
 * @throws Response 503 as {@link openSigner}
 */
export async function publicKeySet(context: SigningContext): Promise<JsonDocument> {
  return (await getCachedKeys(context)).keySet;
}

/**
 * Returns a token's claims, or null if the token is of another type or was not signed by a published key of this
 * provider. Accepts expired tokens, because an `id_token_hint` may have expired (OpenID Connect RP-Initiated Logout 1.0
 * section 2).
 * @throws Response 503 as {@link openSigner}
 */
export async function verifyOwnJwt(
  context: SigningContext,
  token: string,
  { typ }: { typ: OwnJwtType },
): Promise<JWTPayload | null> {
  const kid = kidOf(token);
  const key = (await getCachedKeys(context)).published.find((each) => each.kid === kid);
  if (!key) return null;
  try {
    const verified = await compactVerify(token, await importJWK({ ...key.publicJwk }, algorithm), {
      algorithms: [algorithm],
    });
    const claims: JWTPayload = JSON.parse(new TextDecoder().decode(verified.payload));
    return verified.protectedHeader.typ === typ && claims.iss === context.env.BASE_URL ? claims : null;
  } catch {
    return null;
  }
}

function kidOf(token: string): string | undefined {
  try {
    return decodeProtectedHeader(token).kid;
  } catch {
    return undefined;
  }
}

function getCachedKeys(context: SigningContext): Promise<SigningKeys> {
  const { env } = context;
  const entry = keysByEnv.get(env);
  if (entry && entry.until > Date.now()) return entry.keys;
  const keys = readKeys(context);
  keysByEnv.set(env, { until: Date.now() + cacheMs, keys });
  keys.catch(() => keysByEnv.delete(env));
  return keys;
}

async function readKeys(context: SigningContext): Promise<SigningKeys> {
  const { published, signing } = await readStoredKeys(context);
  const key = await importJWK(signing.privateJwk, algorithm);
  if (key instanceof Uint8Array) throw new Error("a signing key is not an RSA key");
  const keys = published.map(({ kid, publicJwk: { kty, n, e } }) => ({ kty, n, e, kid, alg: algorithm, use: "sig" }));
  return { published, signing: { kid: signing.kid, key }, keySet: jsonDocument({ keys }) };
}
