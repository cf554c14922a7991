import { createHmac } from "node:crypto";
import { type CryptoKey, exportJWK, generateKeyPair, type JWTPayload, SignJWT } from "jose";
import { beforeAll, describe, expect, test } from "vitest";
import { parsePublicKey, type StoredKey } from "./assertion-key.ts";
import { type AssertionKey, readUnverifiedSubject, verifyAssertion } from "./client-assertion.ts";

const issuer = "https://accounts.example.com";
const clientId = "svc_3f2504e0-4f89-41d3-9a0c-0305e82c3301";
const now = new Date("2026-12-01T12:00:00Z");
const nowSeconds = now.getTime() / 1_000;

interface Pair {
  alg: string;
  privateKey: CryptoKey;
  stored: AssertionKey;
}

const pairs = new Map<string, Pair>();

async function createPair(alg: string, kid: string): Promise<Pair> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  const parsed = await parsePublicKey(JSON.stringify({ ...(await exportJWK(publicKey)), alg, kid }));
  if ("fault" in parsed) throw new Error(parsed.fault);
  return { alg, privateKey, stored: { credentialId: crypto.randomUUID(), jwk: parsed.key } };
}

beforeAll(async () => {
  for (const alg of ["Ed25519", "ES256", "RS256", "PS256"]) pairs.set(alg, await createPair(alg, `${alg}-key`));
  pairs.set("another", await createPair("ES256", "ES256-key"));
});

function pairOf(name: string): Pair {
  const pair = pairs.get(name);
  if (!pair) throw new Error(`no pair ${name}`);
  return pair;
}

const usual = (): JWTPayload => ({
  iss: clientId,
  sub: clientId,
  aud: issuer,
  iat: nowSeconds,
  exp: nowSeconds + 60,
  jti: "0123456789abcdef",
});

interface Made {
  claims?: Record<string, unknown>;
  header?: Record<string, unknown>;
  by?: string;
}

/** Signs the usual claims with changes; undefined removes a claim. */
async function sign({ claims = {}, header = {}, by = "ES256" }: Made = {}): Promise<string> {
  const { alg, privateKey } = pairOf(by);
  return new SignJWT({ ...usual(), ...claims })
    .setProtectedHeader({ alg, kid: pairOf(by).stored.jwk.kid, ...header })
    .sign(privateKey);
}

const verify = (assertion: string, keys: readonly AssertionKey[] = [pairOf("ES256").stored], id = clientId) =>
  verifyAssertion(assertion, { clientId: id, issuer, keys, now });

describe("a client assertion", () => {
  test.each(["Ed25519", "ES256", "RS256", "PS256"])("is accepted if a stored key for %s signed it", async (by) => {
    const { stored } = pairOf(by);
    expect(await verify(await sign({ by }), [stored])).toEqual({
      credentialId: stored.credentialId,
      jti: "0123456789abcdef",
      // The database remembers it for the clock skew too.
      expiresAt: "2026-12-01T12:01:30.000Z",
    });
  });

  test("may name the algorithm of an Ed25519 key EdDSA", async () => {
    const { stored } = pairOf("Ed25519");
    const assertion = await sign({ by: "Ed25519", header: { alg: "EdDSA" } });
    expect(await verify(assertion, [stored])).toMatchObject({ credentialId: stored.credentialId });
  });

  test("is verified with each key of its algorithm if it names none", async () => {
    const keys = ["another", "RS256", "ES256"].map((name) => pairOf(name).stored);
    const assertion = await sign({ header: { kid: undefined } });
    expect(await verify(assertion, keys)).toMatchObject({ credentialId: pairOf("ES256").stored.credentialId });
  });

  test.each([
    ["at the server’s time", { iat: nowSeconds, exp: nowSeconds + 300 }],
    ["30 seconds ahead of the server", { iat: nowSeconds + 30, exp: nowSeconds + 330 }],
    ["29 seconds after it expired", { iat: nowSeconds - 329, exp: nowSeconds - 29 }],
    ["with an nbf 30 seconds ahead", { nbf: nowSeconds + 30 }],
    ["with a jti of 8 characters", { jti: "12345678" }],
    ["with a jti of 128 characters", { jti: "x".repeat(128) }],
  ])("is accepted %s", async (_, claims) => {
    expect(await verify(await sign({ claims }))).not.toBeNull();
  });

  test.each([
    ["valid for more than 300 seconds", { exp: nowSeconds + 301 }],
    ["issued more than 30 seconds ahead of the server", { iat: nowSeconds + 31, exp: nowSeconds + 90 }],
    ["expired for 30 seconds", { iat: nowSeconds - 90, exp: nowSeconds - 30 }],
    ["issued long ago for a long time", { iat: nowSeconds - 3_600, exp: nowSeconds + 60 }],
    ["with an nbf more than 30 seconds ahead", { nbf: nowSeconds + 31 }],
    ["without an expiry", { exp: undefined }],
    ["without a time of issue", { iat: undefined }],
    ["without a jti", { jti: undefined }],
    ["with a jti of 7 characters", { jti: "1234567" }],
    ["with a jti of 129 characters", { jti: "x".repeat(129) }],
    ["with a jti that has control characters", { jti: "12345678\n" }],
    ["with a jti that is a number", { jti: 12345678 }],
    ["with an expiry that is a text", { exp: String(nowSeconds + 60) }],
    ["for the token endpoint", { aud: `${issuer}/oauth/token` }],
    ["for another server", { aud: "https://other.example.com" }],
    ["for the issuer with a slash", { aud: `${issuer}/` }],
    ["for several audiences", { aud: [issuer, "https://other.example.com"] }],
    ["for a list with only the issuer", { aud: [issuer] }],
    ["without an audience", { aud: undefined }],
    ["from another issuer", { iss: "svc_other" }],
    ["about another client", { sub: "svc_other" }],
    ["without an issuer", { iss: undefined }],
    ["without a subject", { sub: undefined }],
  ])("is refused if it is %s", async (_, claims) => {
    expect(await verify(await sign({ claims }))).toBeNull();
  });

  test.each(["JWT", "jwt", "client-authentication+jwt", "application/client-authentication+jwt", undefined])(
    "is accepted with the type %s",
    async (typ) => {
      expect(await verify(await sign({ header: { typ } }))).not.toBeNull();
    },
  );

  test.each(["at+jwt", "logout+jwt", "dpop+jwt", ""])("is refused with the type %j", async (typ) => {
    expect(await verify(await sign({ header: { typ } }))).toBeNull();
  });

  test("is refused if another key with the same ID signed it", async () => {
    expect(await verify(await sign({ by: "another" }))).toBeNull();
  });

  test("is refused if it names a key that the client doesn’t have", async () => {
    expect(await verify(await sign({ header: { kid: "RS256-key" } }))).toBeNull();
    expect(await verify(await sign(), [])).toBeNull();
  });

  test("is refused for another client, even with that client’s keys", async () => {
    expect(await verify(await sign(), [pairOf("ES256").stored], "svc_other")).toBeNull();
  });

  test("is refused if its algorithm is not the stored key’s, even for the same kind of key", async () => {
    const { jwk, credentialId } = pairOf("RS256").stored;
    const forPs256 = { credentialId, jwk: { ...jwk, alg: "PS256" } as StoredKey };
    expect(await verify(await sign({ by: "RS256" }), [forPs256])).toBeNull();
  });

  test("is refused without a signature, and with an HMAC of the public key", async () => {
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const { jwk } = pairOf("ES256").stored;
    expect(await verify(`${encode({ alg: "none" })}.${encode(usual())}.`)).toBeNull();
    const signed = `${encode({ alg: "HS256", kid: jwk.kid })}.${encode(usual())}`;
    const hmac = createHmac("sha256", JSON.stringify(jwk)).update(signed).digest("base64url");
    expect(await verify(`${signed}.${hmac}`)).toBeNull();
  });

  test("is refused with critical headers, after a change, and if it isn’t a JWT", async () => {
    const assertion = await sign();
    const [head = "", body = "", signature = ""] = assertion.split(".");
    const changed = Buffer.from(body, "base64url").toString().replace("0123456789abcdef", "fedcba9876543210");
    expect(await verify([head, Buffer.from(changed).toString("base64url"), signature].join("."))).toBeNull();
    const critical = Buffer.from(JSON.stringify({ alg: "ES256", crit: ["x"], x: 1 })).toString("base64url");
    expect(await verify([critical, body, signature].join("."))).toBeNull();
    for (const text of ["", "a.b.c", "....", assertion.slice(0, -4), "x".repeat(5_000)]) {
      expect(await verify(text)).toBeNull();
    }
  });
});

describe("the client that an assertion claims to be from", () => {
  test("is its subject, before anything is verified", async () => {
    expect(readUnverifiedSubject(await sign({ claims: { exp: 1 } }))).toBe(clientId);
  });

  test.each(["", "a.b.c", "x".repeat(5_000)])("is null for %j", (text) => {
    expect(readUnverifiedSubject(text)).toBeNull();
  });

  test.each([undefined, 1, "", "svc_\0", "svc_\ud800", "x".repeat(101)])("is null for the subject %j", async (sub) => {
    expect(readUnverifiedSubject(await sign({ claims: { sub } }))).toBeNull();
  });
});
