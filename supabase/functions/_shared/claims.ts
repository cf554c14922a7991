import {
  createRemoteJWKSet,
  decodeJwt,
  decodeProtectedHeader,
  type ExportedJWKSCache,
  errors,
  type JWKSCacheInput,
  jwksCache,
  jwtVerify,
  type RemoteJWKSet,
} from "jose";
import { z } from "zod";

/** Time limits for the verification of one token. */
const jwksTimeoutMs = 1_000;
const getUserTimeoutMs = 2_500;
/** How long tokens are checked with the identity backend after a failed JWKS fetch. */
const jwksRetryAfterMs = 5_000;
/** Maximum number of verified tokens to remember, about 2 MB. A new token replaces the oldest one. */
export const maxVerifiedTokens = 1_000;

/**
 * The header in which our web server proves that the browser sent the cookie of the session's mobile approval. The Data
 * API and the gateway pass the proof to the database, which alone verifies it.
 */
export const approvalProofHeader = "x-mfa-approval";

const claimsSchema = z.object({
  sub: z.uuid(),
  session_id: z.uuid(),
  exp: z.number(),
  iat: z.number(),
  iss: z.string(),
  aud: z.union([z.literal("authenticated"), z.array(z.string()).refine((list) => list.includes("authenticated"))]),
  role: z.literal("authenticated"),
  email: z.string().optional(),
  aal: z.enum(["aal1", "aal2", "aal3"]),
  amr: z.array(z.object({ method: z.string(), timestamp: z.number() })).default([]),
});

/** The claims of a user's access token that our code uses. */
export type Claims = z.infer<typeof claimsSchema>;

/**
 * The result of verifying an access token. `unavailable` means that verification was not possible, so the token is
 * neither valid nor refused.
 */
export type ClaimsResult = { status: "valid"; claims: Claims } | { status: "refused" } | { status: "unavailable" };

export interface ClaimsVerifierOptions {
  /** The Supabase project's URL, without a trailing slash. */
  supabaseUrl: string;
  /** The tokens' issuer. Defaults to the identity backend at `supabaseUrl`. */
  issuer?: string | undefined;
  /** The `fetch` used for requests to the identity backend. */
  fetch?: typeof globalThis.fetch;
  /** Milliseconds since 1970. */
  now?: () => number;
}

export interface VerifyOptions {
  /** Headers for a request to the identity backend on this visitor's behalf, without Authorization. */
  identityHeaders: Record<string, string>;
}

export type ClaimsVerifier = (accessToken: string, options: VerifyOptions) => Promise<ClaimsResult>;

/**
 * Creates the verifier of access tokens. Verifies locally against the project's JWKS (ES256; iss, aud, exp). If the
 * keys are unavailable, or the project has no asymmetric key, asks the identity backend for the user instead.
 */
export function createClaimsVerifier(options: ClaimsVerifierOptions): ClaimsVerifier {
  const { supabaseUrl, fetch = globalThis.fetch, now = Date.now } = options;
  const authUrl = `${supabaseUrl}/auth/v1`;
  const { issuer = authUrl } = options;
  const keySet: Partial<ExportedJWKSCache> = {};
  const jwks = createRemoteJWKSet(new URL(`${authUrl}/.well-known/jwks.json`), {
    timeoutDuration: jwksTimeoutMs,
    [jwksCache]: keySet as JWKSCacheInput,
  });
  const remembered = createVerifiedCache();
  let jwksFailedAt = Number.NEGATIVE_INFINITY;

  async function keysAvailable(): Promise<boolean> {
    if (jwks.fresh) return true;
    if (now() - jwksFailedAt < jwksRetryAfterMs) return false;
    try {
      await jwks.reload();
      return true;
    } catch {
      jwksFailedAt = now();
      return false;
    }
  }

  async function askBackend(accessToken: string, { identityHeaders }: VerifyOptions): Promise<ClaimsResult> {
    const claims = readClaims(accessToken, { issuer, nowSeconds: now() / 1000 });
    if (!claims) return { status: "refused" };
    try {
      const response = await fetch(`${authUrl}/user`, {
        headers: { ...identityHeaders, Authorization: `Bearer ${accessToken}` },
        signal: AbortSignal.timeout(getUserTimeoutMs),
      });
      if (response.status === 403 || response.status === 401) return { status: "refused" };
      if (!response.ok) return { status: "unavailable" };
      const user = (await response.json()) as { id?: unknown };
      return user.id === claims.sub ? { status: "valid", claims } : { status: "refused" };
    } catch {
      return { status: "unavailable" };
    }
  }

  return async (accessToken, verifyOptions) => {
    const algorithm = algorithmOf(accessToken);
    if (algorithm === null) return { status: "refused" };
    if (!(await keysAvailable())) return askBackend(accessToken, verifyOptions);
    const { jwks: keys } = keySet;
    if (!keys?.keys.length) return askBackend(accessToken, verifyOptions);
    if (algorithm !== "ES256") return { status: "refused" };
    const known = remembered.find(accessToken, keys);
    if (known) return known.exp > now() / 1000 ? { status: "valid", claims: known } : { status: "refused" };
    const result = await verifyLocally(accessToken, { jwks, issuer, now });
    // The token's key is not in the current key set, and a newer set could not be fetched.
    if (result.status === "unavailable") return askBackend(accessToken, verifyOptions);
    // If the key set changed during verification, it is unclear which set verified the token, so the token is not
    // remembered.
    if (result.status === "valid" && keys === keySet.jwks) remembered.add(accessToken, { claims: result.claims, keys });
    return result;
  };
}

/**
 * Remembers tokens whose signature has been verified, so that each signature is verified only once. The result can't be
 * outdated, because the whole token is compared, its expiry is checked on each use, and all tokens are forgotten when
 * the key set changes. Remembering tokens doesn't change how often the key set is fetched. A token doesn't show whether
 * its session is still active or what its account requires, so the database checks that on each request.
 */
function createVerifiedCache() {
  let verifiedBy: object | undefined;
  const verified = new Map<string, Claims>();
  return {
    find: (accessToken: string, keys: object) => (keys === verifiedBy ? verified.get(accessToken) : undefined),
    add(accessToken: string, { claims, keys }: { claims: Claims; keys: object }) {
      if (keys !== verifiedBy) verified.clear();
      verifiedBy = keys;
      if (verified.size >= maxVerifiedTokens) verified.delete(verified.keys().next().value ?? "");
      verified.set(accessToken, Object.freeze(claims));
    },
  };
}

async function verifyLocally(
  accessToken: string,
  { jwks, issuer, now }: { jwks: RemoteJWKSet; issuer: string; now: () => number },
): Promise<ClaimsResult> {
  try {
    const { payload } = await jwtVerify(accessToken, jwks, {
      algorithms: ["ES256"],
      issuer,
      audience: "authenticated",
      requiredClaims: ["exp", "iat", "sub"],
      currentDate: new Date(now()),
    });
    const claims = claimsSchema.safeParse(payload);
    return claims.success ? { status: "valid", claims: claims.data } : { status: "refused" };
  } catch (error) {
    return { status: isMissingKeySet(error) ? "unavailable" : "refused" };
  }
}

/** Returns whether an error means that the keys were unavailable. Errors about the token have their own codes. */
function isMissingKeySet(error: unknown): boolean {
  if (error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid) return true;
  return !(error instanceof errors.JOSEError) || error.code === errors.JOSEError.code;
}

/**
 * Reads a token's claims without verifying the token. Only for a token that the identity backend confirms afterwards.
 */
function readClaims(accessToken: string, { issuer, nowSeconds }: { issuer: string; nowSeconds: number }) {
  try {
    const claims = claimsSchema.parse(decodeJwt(accessToken));
    return claims.iss === issuer && claims.exp > nowSeconds ? claims : null;
  } catch {
    return null;
  }
}

/**
 * Reads the claims of a token that the identity backend issued to us in this request. Must not be used for other
 * tokens.
 */
export function decodeIssuedClaims(accessToken: string): Claims {
  return claimsSchema.parse(decodeJwt(accessToken));
}

/**
 * Returns the expiry time that an unverified token states, in seconds since 1970, or null if the text isn't a token.
 */
export function expiryOf(accessToken: string): number | null {
  try {
    return decodeJwt(accessToken).exp ?? null;
  } catch {
    return null;
  }
}

/** Returns the session that an unverified token states, or null if the text isn't a user's token. */
export function sessionIdOf(accessToken: string): string | null {
  try {
    return claimsSchema.parse(decodeJwt(accessToken)).session_id;
  } catch {
    return null;
  }
}

function algorithmOf(accessToken: string): string | null {
  try {
    const { alg } = decodeProtectedHeader(accessToken);
    return alg === undefined || alg.toLowerCase() === "none" ? null : alg;
  } catch {
    return null;
  }
}
