import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type ClaimsVerifier, createClaimsVerifier, maxVerifiedTokens } from "./claims.ts";

const sub = "5f0c1d52-6f0e-4f9f-9f5e-0d2b8c1f2a3b";
const identityHeaders = {};
const keyPair = () => generateKeyPair("ES256");

let server: Server;
let supabaseUrl: string;
let keys: { kid: string; pair: Awaited<ReturnType<typeof keyPair>> }[];
/** A response that replaces the key set, or null. */
let keysFault: { status: number; body: string } | null;
/** The response status of the identity backend's `/user` endpoint. */
let userStatus: number;
let users: number;
let verify: ClaimsVerifier;
let verifications: { mock: { calls: unknown[] } };

beforeEach(async () => {
  // Fakes only `Date`, which jose uses to decide when to fetch the keys again.
  vi.useFakeTimers({ toFake: ["Date"] });
  keys = [{ kid: "first", pair: await keyPair() }];
  keysFault = null;
  userStatus = 200;
  users = 0;
  server = createServer(async (request, response) => {
    if (request.url === "/auth/v1/user") {
      users += 1;
      response.writeHead(userStatus).end(JSON.stringify({ id: sub }));
      return;
    }
    if (keysFault) {
      response.writeHead(keysFault.status).end(keysFault.body);
      return;
    }
    const published = keys.map(async ({ kid, pair }) => ({ ...(await exportJWK(pair.publicKey)), kid, alg: "ES256" }));
    response.setHeader("content-type", "application/json").end(JSON.stringify({ keys: await Promise.all(published) }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  supabaseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  verify = createClaimsVerifier({ supabaseUrl });
  verifications = vi.spyOn(crypto.subtle, "verify");
});

afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

/**
 * Returns a signed access token.
 * @param expiresIn lifetime in seconds
 */
function tokenOf({
  expiresIn = 3_600,
  email = "ada@example.test",
  by = keys[0],
  issuer = `${supabaseUrl}/auth/v1`,
} = {}): Promise<string> {
  if (!by) throw new Error("There is no key.");
  const nowSeconds = Math.floor(Date.now() / 1_000);
  return new SignJWT({ sub, session_id: sub, role: "authenticated", aal: "aal1", amr: [], email })
    .setProtectedHeader({ alg: "ES256", kid: by.kid })
    .setIssuer(issuer)
    .setAudience("authenticated")
    .setIssuedAt(nowSeconds)
    .setExpirationTime(nowSeconds + expiresIn)
    .sign(by.pair.privateKey);
}

const statusOf = async (token: string) => (await verify(token, { identityHeaders })).status;

test("verifies the signature of a token only once", async () => {
  const token = await tokenOf();
  const first = await verify(token, { identityHeaders });
  expect(await verify(token, { identityHeaders })).toEqual(first);
  expect(first).toMatchObject({ status: "valid", claims: { sub, email: "ada@example.test" } });
  expect(verifications.mock.calls).toHaveLength(1);
});

test("refuses a token that combines a known signature with another payload", async () => {
  const token = await tokenOf();
  await statusOf(token);
  const [header, , signature] = token.split(".");
  const [, payload] = (await tokenOf({ email: "eve@example.test" })).split(".");
  expect(await statusOf(`${header}.${payload}.${signature}`)).toBe("refused");
  expect(await statusOf(token)).toBe("valid");
});

test("refuses a token from the second it expires, even if it was verified before", async () => {
  vi.setSystemTime(new Date("2026-03-01T00:00:00Z"));
  const token = await tokenOf({ expiresIn: 60 });
  expect(await statusOf(token)).toBe("valid");
  vi.setSystemTime(new Date("2026-03-01T00:00:59.999Z"));
  expect(await statusOf(token)).toBe("valid");
  vi.setSystemTime(new Date("2026-03-01T00:01:00Z"));
  expect(await statusOf(token)).toBe("refused");
});

test("refuses a token after its key is withdrawn, even if the token was verified before", async () => {
  const token = await tokenOf();
  expect(await statusOf(token)).toBe("valid");
  keys = [{ kid: "second", pair: await keyPair() }];
  vi.setSystemTime(Date.now() + 600_001);
  expect(await statusOf(token)).toBe("refused");
});

test("fetches the key set again for an unknown key, and forgets tokens signed by the old key", async () => {
  const token = await tokenOf();
  expect(await statusOf(token)).toBe("valid");
  keys = [{ kid: "second", pair: await keyPair() }];
  vi.setSystemTime(Date.now() + 30_001);
  expect(await statusOf(await tokenOf())).toBe("valid");
  expect(await statusOf(token)).toBe("refused");
});

test("accepts tokens of a stated issuer only, and asks the backend at its own address", async () => {
  const outside = "http://127.0.0.1:54321/auth/v1";
  const other = createClaimsVerifier({ supabaseUrl, issuer: outside });
  expect(await other(await tokenOf(), { identityHeaders })).toMatchObject({ status: "refused" });
  expect(await other(await tokenOf({ issuer: outside }), { identityHeaders })).toMatchObject({ status: "valid" });
  keysFault = { status: 500, body: "" };
  const unavailable = createClaimsVerifier({ supabaseUrl, issuer: outside });
  expect(await unavailable(await tokenOf({ issuer: outside }), { identityHeaders })).toMatchObject({ status: "valid" });
  expect(await unavailable(await tokenOf(), { identityHeaders })).toMatchObject({ status: "refused" });
  expect(users).toBe(1);
});

describe("a token signed by a new key while the key set is unavailable", () => {
  beforeEach(async () => {
    expect(await statusOf(await tokenOf())).toBe("valid");
    keys = [{ kid: "second", pair: await keyPair() }];
    vi.setSystemTime(Date.now() + 30_001);
  });

  test.each([
    ["an error", { status: 503, body: "" }],
    ["not JSON", { status: 200, body: "<html>" }],
    ["no keys", { status: 200, body: "{}" }],
  ])(
    "asks the identity backend about a token signed by a new key while the key set is unavailable (%s)",
    async (_, fault) => {
      keysFault = fault;
      const token = await tokenOf();
      expect(await verify(token, { identityHeaders })).toMatchObject({ status: "valid", claims: { sub } });
      userStatus = 403;
      expect(await statusOf(token)).toBe("refused");
      userStatus = 500;
      expect(await statusOf(token)).toBe("unavailable");
      expect(users).toBe(3);
    },
  );
});

test("refuses a token with a wrong signature without calling the identity backend", async () => {
  const forged = await tokenOf({ by: { kid: "first", pair: await keyPair() } });
  expect([await statusOf(forged), users]).toEqual(["refused", 0]);
});

test(`remembers ${maxVerifiedTokens} verified tokens; after one more, verifies the first token again`, async () => {
  const first = await tokenOf({ email: "first@example.test" });
  await statusOf(first);
  for (let index = 1; index < maxVerifiedTokens; index += 1)
    await statusOf(await tokenOf({ email: `${index}@a.test` }));
  await statusOf(first);
  expect(verifications.mock.calls).toHaveLength(maxVerifiedTokens);
  await statusOf(await tokenOf({ email: "last@example.test" }));
  await statusOf(first);
  expect(verifications.mock.calls).toHaveLength(maxVerifiedTokens + 2);
});
