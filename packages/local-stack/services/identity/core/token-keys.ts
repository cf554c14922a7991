import { type CryptoKey, errors, importJWK, type JWK, type JWTPayload, jwtVerify, SignJWT } from "jose";
import { z } from "zod";
import type { Config } from "../config/config.ts";
import { AuthError } from "./errors.ts";

const keyShape = z.looseObject({
  kty: z.enum(["EC", "RSA", "oct", "OKP"]),
  kid: z.string().default(""),
  alg: z.string().default("HS256"),
  key_ops: z.array(z.string()).default([]),
});
type Key = z.infer<typeof keyShape>;

/** The claims that this server reads from a token. A claim of the wrong type is not converted. */
const claimShapes = z.looseObject({
  sub: z.string().nullish(),
  aud: z.union([z.string(), z.array(z.string())]).nullish(),
  role: z.string().nullish(),
  session_id: z.string().nullish(),
  email: z.string().nullish(),
  phone: z.string().nullish(),
  aal: z.string().nullish(),
  amr: z.array(z.looseObject({})).nullish(),
  app_metadata: z.looseObject({}).nullish(),
  user_metadata: z.looseObject({}).nullish(),
  is_anonymous: z.boolean().nullish(),
});

export type TokenKeys = {
  sign: (claims: JWTPayload) => Promise<string>;
  /** Checks a token's signature, times and claim types. Callers check iss and aud. @throws AuthError 403 bad_jwt */
  verify: (token: string, now: Date) => Promise<JWTPayload>;
  /** The public keys; empty if tokens are signed with a shared secret. */
  jwks: { keys: JWK[] };
};

type Settings = Pick<Config, "GOTRUE_JWT_KEYS" | "GOTRUE_JWT_SECRET" | "GOTRUE_JWT_KEY_ID">;

/**
 * Reads the signing keys from JWT_KEYS, of which exactly one may sign. Without JWT_KEYS, uses JWT_SECRET with HS256.
 * @throws Error naming the variable if the keys are unusable
 */
export async function loadTokenKeys(config: Settings): Promise<TokenKeys> {
  const secret = new TextEncoder().encode(config.GOTRUE_JWT_SECRET);
  const keys = parseKeys(config);
  const signing = keys.filter((key) => key.key_ops.includes("sign"));
  const [signer] = signing;
  if (!signer || signing.length > 1) {
    throw new Error(`GOTRUE_JWT_KEYS must hold exactly one key whose key_ops has "sign", not ${signing.length}.`);
  }
  const signingKey = await importJWK(forUse(signer, "sign"), signer.alg);
  const verifying = new Map<string, CryptoKey | Uint8Array>();
  for (const key of keys) verifying.set(key.kid, await importJWK(forUse(key, "verify"), key.alg));
  const algorithms = keys.map((key) => key.alg);

  return {
    jwks: {
      keys: keys.filter((key) => key.kty !== "oct").map((key) => ({ ...publicPart(key), use: "sig" })),
    },
    sign: (claims) =>
      new SignJWT(claims)
        .setProtectedHeader({ alg: signer.alg, typ: "JWT", ...(signer.kid ? { kid: signer.kid } : {}) })
        .sign(signingKey),
    async verify(token, now) {
      try {
        const { payload } = await jwtVerify(
          token,
          ({ kid, alg }) => {
            const key = kid === undefined ? undefined : verifying.get(kid);
            if (key) return key;
            if (alg === "HS256") return secret;
            throw new errors.JWKSNoMatchingKey();
          },
          { algorithms, currentDate: now },
        );
        claimShapes.parse(payload);
        return payload;
      } catch (error) {
        const reason = describe(error);
        throw new AuthError(403, "bad_jwt", `invalid JWT: unable to parse or verify signature, ${reason}`);
      }
    },
  };
}

function describe(error: unknown): string {
  if (error instanceof errors.JOSEError) return error.message;
  if (error instanceof z.ZodError) return `claim ${String(error.issues[0]?.path[0])} is of another type`;
  return "unusable key";
}

function parseKeys(config: Settings): Key[] {
  if (!config.GOTRUE_JWT_KEYS) {
    return [
      {
        kty: "oct",
        alg: "HS256",
        kid: config.GOTRUE_JWT_KEY_ID,
        k: Buffer.from(config.GOTRUE_JWT_SECRET).toString("base64url"),
        key_ops: ["sign", "verify"],
      },
    ];
  }
  let json: unknown;
  try {
    json = JSON.parse(config.GOTRUE_JWT_KEYS);
  } catch {
    throw new Error("GOTRUE_JWT_KEYS is not JSON.");
  }
  const parsed = z.array(keyShape).safeParse(json);
  if (!parsed.success) throw new Error(`GOTRUE_JWT_KEYS is not a list of JWKs: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}

/**
 * Returns the key with the one operation that WebCrypto should allow. To verify, only the public part of a key pair can
 * be imported.
 */
function forUse(key: Key, use: "sign" | "verify"): JWK {
  if (use === "sign") return { ...key, key_ops: ["sign"] };
  return key.kty === "oct" ? { ...key, key_ops: ["verify"] } : publicPart(key);
}

function publicPart({ d: _d, p: _p, q: _q, dp: _dp, dq: _dq, qi: _qi, ...rest }: Key): JWK {
  return { ...rest, key_ops: ["verify"] };
}
