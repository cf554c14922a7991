import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTokenVerifier, type TokenVerifier } from "./user-tokens.ts";

const issuer = "http://127.0.0.1:54321/auth/v1";
const audience = "authenticated";
const user: JWTPayload = { sub: "5c1a5c80-0000-4000-8000-000000000001", role: "authenticated" };

type Keys = Awaited<ReturnType<typeof generateKeyPair>>;
let first: Keys;
let second: Keys;
let foreign: Keys;
let published: string[];
let fetches = 0;
let server: Server;
let verify: TokenVerifier;

async function listen(): Promise<URL> {
  server = createServer(async (_request, response) => {
    fetches += 1;
    const keys = await Promise.all(
      published.map(async (kid) => {
        const jwk = await exportJWK(kid === "first" ? first.publicKey : second.publicKey);
        return { ...jwk, kid, alg: "ES256", use: "sig" };
      }),
    );
    response.setHeader("content-type", "application/json").end(JSON.stringify({ keys }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return new URL(`http://127.0.0.1:${address.port}/.well-known/jwks.json`);
}

beforeAll(async () => {
  [first, second, foreign] = (await Promise.all([1, 2, 3].map(() => generateKeyPair("ES256")))) as [Keys, Keys, Keys];
  published = ["first"];
  verify = createTokenVerifier({ jwksUrl: await listen(), issuer, audience });
});

afterAll(() => server.close());

function token(overrides: JWTPayload = {}, { kid = "first", key = first.privateKey } = {}): Promise<string> {
  return new SignJWT({ iss: issuer, aud: audience, exp: nowPlus(60), ...user, ...overrides })
    .setProtectedHeader({ alg: "ES256", kid })
    .sign(key);
}

function nowPlus(seconds: number): number {
  return Math.floor(Date.now() / 1000) + seconds;
}

async function refusalOf(text: string): Promise<unknown> {
  const verdict = await verify(text);
  return "refusal" in verdict ? { status: verdict.refusal.status, ...verdict.refusal.body } : verdict;
}

describe("Accepted tokens", () => {
  test("accepts a token signed by a published key, for this project and within its lifetime", async () => {
    expect(await verify(await token())).toMatchObject({ claims: user });
  });

  test("accepts a token until the second in which it expires, but not afterwards", async () => {
    expect(await verify(await token({ exp: nowPlus(2) }))).toHaveProperty("claims");
    expect(await refusalOf(await token({ exp: nowPlus(-1) }))).toMatchObject({
      status: 401,
      code: "PGRST303",
      message: "JWT expired",
    });
  });

  test("accepts a token issued slightly ahead of our clock, and refuses one issued far ahead", async () => {
    expect(await verify(await token({ iat: nowPlus(25) }))).toHaveProperty("claims");
    expect(await refusalOf(await token({ iat: nowPlus(40) }))).toMatchObject({ message: "JWT issued at future" });
  });

  test("accepts a token whose key was published after our last fetch", async () => {
    const early = await token({}, { kid: "second", key: second.privateKey });
    expect(await refusalOf(early)).toMatchObject({ code: "PGRST301" });
    published = ["first", "second"];
    await expect.poll(() => verify(early), { timeout: 3_000 }).toHaveProperty("claims");
  });
});

describe("Refused tokens", () => {
  const wrongKey = { status: 401, code: "PGRST301", message: "No suitable key or wrong key type" };

  test("refuses a token without a signature", async () => {
    const unsigned = new UnsecuredJWT({ ...user, iss: issuer, aud: audience, exp: nowPlus(60) }).encode();
    expect(await refusalOf(`${unsigned}x`)).toMatchObject({ status: 401, code: "PGRST301" });
    expect(await refusalOf(unsigned)).toMatchObject({ status: 401, code: "PGRST301" });
  });

  test("refuses a token signed with the public key as an HMAC secret", async () => {
    const jwk = await exportJWK(first.publicKey);
    for (const secret of [JSON.stringify(jwk), jwk.x ?? ""]) {
      const forged = await new SignJWT({ ...user, iss: issuer, aud: audience, exp: nowPlus(60) })
        .setProtectedHeader({ alg: "HS256", kid: "first" })
        .sign(new TextEncoder().encode(secret));
      expect(await refusalOf(forged)).toMatchObject(wrongKey);
    }
  });

  test("refuses a token signed by another key under a published key id", async () => {
    expect(await refusalOf(await token({}, { key: foreign.privateKey }))).toMatchObject(wrongKey);
  });

  test("refuses a token changed after signing", async () => {
    const [header, , signature] = (await token()).split(".");
    const payload = Buffer.from(JSON.stringify({ ...user, role: "service_role", iss: issuer, aud: audience })).toString(
      "base64url",
    );
    expect(await refusalOf(`${header}.${payload}.${signature}`)).toMatchObject(wrongKey);
  });

  test.each([
    ["another audience", { aud: "other" }, "JWT not in audience"],
    ["another issuer", { iss: "http://127.0.0.1:54321/other" }, "JWT not issued by this project"],
    ["a start time in the future", { nbf: Math.floor(Date.now() / 1000) + 60 }, "JWT not yet valid"],
    ["no expiry", { exp: undefined }, "Parsing claims failed"],
    ["no subject", { sub: undefined }, "Parsing claims failed"],
  ])("refuses a token with %s", async (_, claims, message) => {
    expect(await refusalOf(await token(claims))).toMatchObject({ status: 401, code: "PGRST303", message });
  });

  test.each([
    ["", "Empty JWT is sent in Authorization header"],
    ["one", "Expected 3 parts in JWT; got 1"],
    ["a.b", "Expected 3 parts in JWT; got 2"],
    ["a.b.c.d", "Expected 3 parts in JWT; got 4"],
    ["a.b.c", "No suitable key or wrong key type"],
  ])("refuses a bearer value that is not a token: %j", async (text, message) => {
    expect(await refusalOf(text)).toMatchObject({ status: 401, code: "PGRST301", message });
  });
});

test("returns 503 when the key set is unavailable", async () => {
  const lonely = createTokenVerifier({ jwksUrl: new URL("http://127.0.0.1:9/jwks.json"), issuer, audience });
  expect(await lonely(await token())).toMatchObject({
    refusal: { status: 503, body: { code: "service_unavailable" } },
  });
});

test("fetches the key set once for many tokens", async () => {
  const before = fetches;
  await Promise.all(Array.from({ length: 20 }, async () => verify(await token())));
  expect(fetches).toBe(before);
});
