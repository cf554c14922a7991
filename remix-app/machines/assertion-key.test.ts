import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from "jose";
import { beforeAll, describe, expect, test } from "vitest";
import { algorithmsOf, parsePublicKey } from "./assertion-key.ts";

interface Pair {
  publicJwk: JWK;
  privateJwk: JWK;
}

const pairs = new Map<string, Pair>();

async function createPair(alg: string, options: { modulusLength?: number } = {}): Promise<Pair> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true, ...options });
  return { publicJwk: await exportJWK(publicKey), privateJwk: await exportJWK(privateKey) };
}

beforeAll(async () => {
  for (const alg of ["Ed25519", "ES256", "ES384", "RS256"]) pairs.set(alg, await createPair(alg));
});

function publicOf(name: string): JWK {
  const pair = pairs.get(name);
  if (!pair) throw new Error(`no pair ${name}`);
  return pair.publicJwk;
}

const parse = (jwk: object) => parsePublicKey(JSON.stringify(jwk));

describe("a public key of a service account", () => {
  test.each([
    ["Ed25519", ["Ed25519", "EdDSA"]],
    ["ES256", ["ES256"]],
    ["RS256", ["RS256"]],
  ])("for %s is stored with its algorithm, and with its thumbprint as its ID", async (name, algorithms) => {
    const parsed = await parse(publicOf(name));
    if ("fault" in parsed) throw new Error(parsed.fault);
    expect(parsed.key).toEqual({ ...publicOf(name), alg: name, kid: await calculateJwkThumbprint(publicOf(name)) });
    expect(algorithmsOf(parsed.key)).toEqual(algorithms);
  });

  test("keeps its own ID and algorithm, and loses members that say nothing about the key", async () => {
    const { kty, n, e } = publicOf("RS256");
    const purpose = { alg: "PS256", use: "sig", key_ops: ["verify"] };
    expect(await parse({ kty, n, e, ...purpose, kid: "ci-2026", x5t: "x", name: "x" })).toEqual({
      key: { kty, n, e, kid: "ci-2026", alg: "PS256" },
    });
  });

  test.each(["Ed25519", "ES256", "RS256"])("is refused if it is the private key for %s", async (name) => {
    const parsed = await parse(pairs.get(name)?.privateJwk ?? {});
    expect(parsed).toEqual({ fault: expect.stringContaining("This is a private key") });
  });

  test.each([
    ["a symmetric key", { kty: "oct", k: "c2VjcmV0" }, "symmetric key"],
    ["a set", { keys: [] }, "one key of the set"],
    ["a list", [], "Use an Ed25519 key"],
    ["a key without a type", {}, "Use an Ed25519 key"],
    ["a key of another type", { kty: "AKP", pub: "AAAA", alg: "ML-DSA-44" }, "Use an Ed25519 key"],
  ])("is refused if it is %s", async (_, jwk, fault) => {
    expect(await parse(jwk)).toEqual({ fault: expect.stringContaining(fault) });
  });

  test.each([
    ["another curve", () => publicOf("ES384"), "Use an Ed25519 key"],
    ["another algorithm", () => ({ ...publicOf("RS256"), alg: "RS512" }), "Use an Ed25519 key"],
    ["an HMAC algorithm", () => ({ ...publicOf("RS256"), alg: "HS256" }), "Use an Ed25519 key"],
    ["a small exponent", () => ({ ...publicOf("RS256"), e: "Aw" }), "Use an Ed25519 key"],
    ["a purpose other than signatures", () => ({ ...publicOf("ES256"), use: "enc" }), "use, key_ops or kid"],
    ["operations without verify", () => ({ ...publicOf("ES256"), key_ops: ["sign"] }), "use, key_ops or kid"],
    ["an ID with spaces", () => ({ ...publicOf("ES256"), kid: "my key" }), "use, key_ops or kid"],
    ["an ID that is too long", () => ({ ...publicOf("ES256"), kid: "x".repeat(129) }), "use, key_ops or kid"],
    ["a point that is not on the curve", () => ({ ...publicOf("ES256"), y: publicOf("ES256").x }), "valid key"],
    ["numbers that are too short", () => ({ ...publicOf("Ed25519"), x: "AAAA" }), "valid key"],
  ])("is refused if it has %s", async (_, jwk, fault) => {
    expect(await parse(jwk())).toEqual({ fault: expect.stringContaining(fault) });
  });

  test.each([
    [2_047, false],
    [2_048, true],
    [4_096, true],
    [4_097, false],
  ])("with an RSA modulus of %i bits is accepted: %s", async (bits, accepted) => {
    const n = Buffer.alloc(Math.ceil(bits / 8), 0xff);
    n[0] = 0xff >> (n.length * 8 - bits);
    const parsed = await parse({ kty: "RSA", e: "AQAB", n: n.toString("base64url") });
    expect("key" in parsed).toBe(accepted);
  });

  test.each(["", "{", "null", '"text"', "-----BEGIN PUBLIC KEY-----"])(
    "is refused if it is the text %j",
    async (text) => {
      expect(await parsePublicKey(text)).toEqual({ fault: "Enter one public key as JSON: an object with kty" });
    },
  );
});
