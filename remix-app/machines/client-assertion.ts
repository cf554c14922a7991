import { decodeJwt, decodeProtectedHeader, errors, importJWK, type JWTPayload, jwtVerify } from "jose";
import { z } from "zod";
import { algorithmsOf, type StoredKey } from "./assertion-key.ts";

/** `client_assertion_type` of a JWT (RFC 7523 section 2.2). */
export const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/** How long an assertion may be valid, from `iat` to `exp`. */
const maxLifetimeSeconds = 300;
/** How far the clocks of client and server may differ. */
const clockSkewSeconds = 30;
/** In characters. An assertion that an RSA key of 4,096 bits signed has about 1,000. */
const maxLength = 4_096;

/**
 * RFC 10070 section 4 types these JWTs as client-authentication+jwt. Existing clients send JWT or no type. Other types,
 * such as at+jwt, are of tokens for other purposes (RFC 8725 section 3.11).
 */
const types = new Set([undefined, "jwt", "client-authentication+jwt"]);

/** A key of the service account that an assertion claims to be from, with the id of the credential. */
export interface AssertionKey {
  credentialId: string;
  jwk: StoredKey;
}

/** A verified assertion. The database accepts its `jti` once for each service account until `expiresAt`. */
export interface VerifiedAssertion {
  credentialId: string;
  jti: string;
  /** When no server accepts the assertion any more, in RFC 3339. */
  expiresAt: string;
}

/** RFC 6749 appendix A.1. Our client IDs have 40 characters. */
const clientIdForm = /^[\x20-\x7e]{1,100}$/;

const claimsSchema = z.object({
  jti: z.string().regex(/^[\x20-\x7e]{8,128}$/),
  iat: z.number(),
  exp: z.number(),
  // RFC 10070: the issuer is the sole audience, so that no other server can use an assertion meant for it here.
  aud: z.string(),
});

/**
 * Returns the client that an assertion claims to be from, not yet verified, to find the client's keys.
 * @returns null if the text is not a JWT with a subject
 */
export function readUnverifiedSubject(assertion: string): string | null {
  if (assertion.length > maxLength) return null;
  try {
    const { sub } = decodeJwt(assertion);
    return typeof sub === "string" && clientIdForm.test(sub) ? sub : null;
  } catch {
    return null;
  }
}

/**
 * Verifies a client assertion (RFC 7523 section 3, as updated by RFC 10070). The stored key decides about the
 * algorithm, never the assertion (RFC 8725 section 3.1).
 * @param options.issuer the authorization server's issuer identifier, the only accepted audience
 * @returns null if the assertion is not valid; the caller still has to consume its `jti`
 */
export async function verifyAssertion(
  assertion: string,
  {
    clientId,
    issuer,
    keys,
    now = new Date(),
  }: { clientId: string; issuer: string; keys: readonly AssertionKey[]; now?: Date },
): Promise<VerifiedAssertion | null> {
  if (assertion.length > maxLength) return null;
  const header = readHeader(assertion);
  if (header === null || !types.has(header.typ)) return null;
  const candidates = keys.filter(
    ({ jwk }) => algorithmsOf(jwk).includes(header.alg) && (header.kid === undefined || jwk.kid === header.kid),
  );
  for (const { credentialId, jwk } of candidates) {
    const payload = await verifyWithKey(assertion, { jwk, alg: header.alg, clientId, issuer, now });
    if (payload) return readClaims(payload, { credentialId, issuer });
  }
  return null;
}

function readHeader(assertion: string): { alg: string; kid: string | undefined; typ: string | undefined } | null {
  try {
    const { alg, kid, typ } = decodeProtectedHeader(assertion);
    if (typeof alg !== "string") return null;
    // RFC 7515 section 4.1.9: media types ignore case, and the prefix application/ may be omitted.
    return { alg, kid, typ: typ?.toLowerCase().replace(/^application\//, "") };
  } catch {
    return null;
  }
}

/** Returns the claims of an assertion that the key signed, or null. */
async function verifyWithKey(
  assertion: string,
  { jwk, alg, clientId, issuer, now }: { jwk: StoredKey; alg: string; clientId: string; issuer: string; now: Date },
): Promise<JWTPayload | null> {
  const { alg: _, kid: _kid, ...publicKey } = jwk;
  try {
    const { payload } = await jwtVerify(assertion, await importJWK(publicKey, alg), {
      algorithms: [alg],
      issuer: clientId,
      subject: clientId,
      audience: issuer,
      requiredClaims: ["exp", "iat", "jti"],
      clockTolerance: clockSkewSeconds,
      maxTokenAge: maxLifetimeSeconds,
      currentDate: now,
    });
    return payload;
  } catch (error) {
    if (error instanceof errors.JOSEError) return null;
    throw error;
  }
}

/** Checks the claims that jose leaves open. Its checks of `iat` and these limit `exp` to 330 seconds ahead. */
function readClaims(
  payload: JWTPayload,
  { credentialId, issuer }: { credentialId: string; issuer: string },
): VerifiedAssertion | null {
  const claims = claimsSchema.safeParse(payload);
  if (!claims.success || claims.data.aud !== issuer) return null;
  const { jti, iat, exp } = claims.data;
  if (exp - iat > maxLifetimeSeconds) return null;
  return { credentialId, jti, expiresAt: new Date((exp + clockSkewSeconds) * 1_000).toISOString() };
}
