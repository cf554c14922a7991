import { constants, createPrivateKey, type JsonWebKey, type KeyObject, randomUUID, sign } from "node:crypto";
import { z } from "zod";
import { Failure } from "./failure.ts";
import { postForm, readPlatformUrl } from "./platform.ts";
import { readText } from "./private-files.ts";

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const assertionLifetimeSeconds = 60;
/** A token that expires within this time is replaced before use. */
const renewBeforeMs = 60_000;

const privateKeySchema = z.looseObject({
  kty: z.enum(["RSA", "EC", "OKP"]),
  crv: z.enum(["P-256", "Ed25519"]).optional(),
  d: z.string(),
  alg: z.string().optional(),
  kid: z.string().optional(),
});

/** A key that signs assertions. */
interface PrivateKey {
  key: KeyObject;
  algorithm: "EdDSA" | "ES256" | "PS256" | "RS256";
  kid: string | undefined;
}

const tokenSchema = z.object({ access_token: z.string(), expires_in: z.number() });

/** A service account that the environment names, with tokens for its calls. */
export interface ServiceAccount {
  /** The platform's origin. */
  url: string;
  clientId: string;
  getToken(): Promise<string>;
}

/**
 * Reads the service account from GATEHOUSE_URL, GATEHOUSE_CLIENT_ID, and either GATEHOUSE_CLIENT_SECRET or
 * GATEHOUSE_PRIVATE_KEY, the file of a private JWK.
 * @throws Failure
 */
export async function readServiceAccount(
  environment: Readonly<Record<string, string | undefined>>,
): Promise<ServiceAccount> {
  const {
    GATEHOUSE_URL: address,
    GATEHOUSE_CLIENT_ID: clientId,
    GATEHOUSE_CLIENT_SECRET: secret,
    GATEHOUSE_PRIVATE_KEY: keyFile,
  } = environment;
  if (!address || !clientId) throw new Failure("configuration", "Set GATEHOUSE_URL and GATEHOUSE_CLIENT_ID.");
  if (!secret === !keyFile) {
    throw new Failure("configuration", "Set either GATEHOUSE_CLIENT_SECRET or GATEHOUSE_PRIVATE_KEY.");
  }
  const url = readPlatformUrl(address);
  const key = keyFile ? await readPrivateKey(keyFile) : null;
  let current: { token: string; expiresAt: number } | null = null;
  return {
    url,
    clientId,
    async getToken() {
      if (current && current.expiresAt - Date.now() > renewBeforeMs) return current.token;
      const proof: Record<string, string> = key
        ? { client_assertion_type: assertionType, client_assertion: signAssertion(key, { clientId, audience: url }) }
        : { client_secret: secret ?? "" };
      const form = { grant_type: "client_credentials", client_id: clientId, ...proof };
      const issued = await postForm(`${url}/oauth/token`, { form, schema: tokenSchema });
      if ("error" in issued) {
        throw new Failure("refused", `${new URL(url).host} refused the service account ${clientId} (${issued.error}).`);
      }
      const { access_token: token, expires_in: seconds } = issued.answer;
      current = { token, expiresAt: Date.now() + seconds * 1000 };
      return token;
    },
  };
}

async function readPrivateKey(file: string): Promise<PrivateKey> {
  const text = await readText(file);
  if (text === null) throw new Failure("configuration", `There is no file ${file}. GATEHOUSE_PRIVATE_KEY names one.`);
  try {
    return parsePrivateKey(text);
  } catch {
    // The error's message could contain a part of the key.
    throw new Failure("configuration", `${file} is not a private key: it must be a JWK for Ed25519, P-256 or RSA.`);
  }
}

/** Parses a private JWK. @throws Error if it is not one, or is for another algorithm */
export function parsePrivateKey(text: string): PrivateKey {
  const jwk = privateKeySchema.parse(JSON.parse(text));
  const { kty, alg, kid } = jwk;
  const rsa = alg === "PS256" ? "PS256" : "RS256";
  const algorithm = ({ OKP: "EdDSA", EC: "ES256", RSA: rsa } as const)[kty];
  return { key: createPrivateKey({ key: jwk as JsonWebKey, format: "jwk" }), algorithm, kid };
}

/** Signs an assertion that the platform accepts once (RFC 7523 section 3, as RFC 10070 updates it). */
export function signAssertion(
  { key, algorithm, kid }: PrivateKey,
  { clientId, audience, now = Date.now() }: { clientId: string; audience: string; now?: number },
): string {
  const iat = Math.floor(now / 1000);
  const header = { typ: "client-authentication+jwt", alg: algorithm, kid };
  const times = { iat, exp: iat + assertionLifetimeSeconds };
  const claims = { iss: clientId, sub: clientId, aud: audience, jti: randomUUID(), ...times };
  const input = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(".");
  const signature = sign(algorithm === "EdDSA" ? null : "sha256", Buffer.from(input), {
    key,
    // RFC 7518 section 3.4: the two numbers of an ECDSA signature, without DER.
    dsaEncoding: "ieee-p1363",
    ...(algorithm === "PS256" && { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 }),
  });
  return `${input}.${signature.toString("base64url")}`;
}
