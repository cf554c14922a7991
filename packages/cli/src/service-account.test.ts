import { createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parsePrivateKey, readServiceAccount, signAssertion } from "./service-account.ts";

const pairs = {
  Ed25519: () => generateKeyPairSync("ed25519"),
  "P-256": () => generateKeyPairSync("ec", { namedCurve: "P-256" }),
  RSA: () => generateKeyPairSync("rsa", { modulusLength: 2048 }),
};

describe("an assertion", () => {
  test.each([
    ["Ed25519", {}, "EdDSA"],
    ["P-256", {}, "ES256"],
    ["RSA", {}, "RS256"],
    ["RSA", { alg: "PS256" }, "PS256"],
  ] as const)("is signed with a key for %s %j", (kind, members, alg) => {
    const { privateKey, publicKey } = pairs[kind]();
    const jwk = { ...privateKey.export({ format: "jwk" }), kid: "k1", ...members };
    const now = Date.UTC(2026, 10, 30);
    const options = { clientId: "svc_1", audience: "https://app.example.com", now };
    const assertion = signAssertion(parsePrivateKey(JSON.stringify(jwk)), options);
    const [header = "", claims = "", signature = ""] = assertion.split(".");
    const read = (part: string): unknown => JSON.parse(Buffer.from(part, "base64url").toString());
    expect(read(header)).toEqual({ typ: "client-authentication+jwt", alg, kid: "k1" });
    expect(read(claims)).toEqual({
      ...{ iss: "svc_1", sub: "svc_1", aud: "https://app.example.com", jti: expect.stringMatching(/^[0-9a-f-]{36}$/) },
      ...{ iat: now / 1000, exp: now / 1000 + 60 },
    });
    const proof = Buffer.from(signature, "base64url");
    const padding = alg === "PS256" ? { padding: 6, saltLength: 32 } : {};
    const key = { key: createPublicKey(publicKey.export({ type: "spki", format: "pem" })), ...padding };
    const signed = Buffer.from(`${header}.${claims}`);
    const digest = alg === "EdDSA" ? null : "sha256";
    expect(verify(digest, signed, { ...key, dsaEncoding: "ieee-p1363" }, proof)).toBe(true);
  });

  test("has an identifier of its own each time", () => {
    const key = parsePrivateKey(JSON.stringify(pairs.Ed25519().privateKey.export({ format: "jwk" })));
    const sign = () => signAssertion(key, { clientId: "svc_1", audience: "https://app.example.com", now: 0 });
    expect(sign()).not.toBe(sign());
  });
});

describe("the service account of the environment", () => {
  let server: Server;
  let folder: string;
  let forms: URLSearchParams[];
  let answer: { status: number; body: object };
  let environment: Record<string, string>;

  beforeEach(async () => {
    forms = [];
    answer = { status: 200, body: { access_token: "ghs_1", expires_in: 900 } };
    folder = await mkdtemp(join(tmpdir(), "gatehouse-key-"));
    server = createServer(async (request, response) => {
      let text = "";
      for await (const chunk of request) text += chunk;
      forms.push(new URLSearchParams(text));
      response.writeHead(answer.status, { "content-type": "application/json" }).end(JSON.stringify(answer.body));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    environment = { GATEHOUSE_URL: url, GATEHOUSE_CLIENT_ID: "svc_1" };
  });
  afterEach(async () => {
    server.close();
    await rm(folder, { recursive: true });
  });

  test("gets a token with its secret, and keeps it until a minute before its end", async () => {
    const account = await readServiceAccount({ ...environment, GATEHOUSE_CLIENT_SECRET: "s" });
    expect([await account.getToken(), await account.getToken()]).toEqual(["ghs_1", "ghs_1"]);
    const form = { grant_type: "client_credentials", client_id: "svc_1", client_secret: "s" };
    expect(forms.map((each) => Object.fromEntries(each))).toEqual([form]);
    answer.body = { access_token: "ghs_2", expires_in: 60 };
    const brief = await readServiceAccount({ ...environment, GATEHOUSE_CLIENT_SECRET: "s" });
    await brief.getToken();
    await brief.getToken();
    expect(forms).toHaveLength(3);
  });

  test("proves itself with a new assertion for each token, and sends no key", async () => {
    const file = join(folder, "key.jwk");
    const jwk = pairs.Ed25519().privateKey.export({ format: "jwk" });
    await writeFile(file, JSON.stringify(jwk));
    const account = await readServiceAccount({ ...environment, GATEHOUSE_PRIVATE_KEY: file });
    await account.getToken();
    expect(forms[0]?.get("client_assertion_type")).toContain("jwt-bearer");
    expect(forms[0]?.toString()).not.toContain(jwk.d);
    expect(forms[0]?.has("client_secret")).toBe(false);
  });

  test("is named when the platform refuses it, without its secret", async () => {
    answer = { status: 401, body: { error: "invalid_client" } };
    const account = await readServiceAccount({ ...environment, GATEHOUSE_CLIENT_SECRET: "top-secret" });
    const failure = await account.getToken().catch((error: Error) => error.message);
    expect(failure).toMatch(/refused the service account svc_1 \(invalid_client\)\.$/);
    expect(failure).not.toContain("top-secret");
  });

  test.each([
    [{ GATEHOUSE_URL: "" }, "Set GATEHOUSE_URL and GATEHOUSE_CLIENT_ID."],
    [{ GATEHOUSE_CLIENT_ID: "" }, "Set GATEHOUSE_URL and GATEHOUSE_CLIENT_ID."],
    [{}, "Set either GATEHOUSE_CLIENT_SECRET or GATEHOUSE_PRIVATE_KEY."],
    [{ GATEHOUSE_CLIENT_SECRET: "s", GATEHOUSE_PRIVATE_KEY: "k" }, "Set either"],
    [{ GATEHOUSE_CLIENT_SECRET: "s", GATEHOUSE_URL: "http://app.example.com" }, "must begin with https"],
    [{ GATEHOUSE_PRIVATE_KEY: "/none.jwk" }, "There is no file /none.jwk."],
  ])("needs its variables: %j", async (variables, message) => {
    await expect(readServiceAccount({ ...environment, ...variables })).rejects.toThrow(message);
  });

  test.each(["not json", "{}", '{"kty":"oct","k":"secret-text"}', '{"kty":"OKP","crv":"Ed25519","d":"secret-text"}'])(
    "refuses the key %j without repeating it",
    async (text) => {
      const file = join(folder, "key.jwk");
      await writeFile(file, text);
      const failure = readServiceAccount({ ...environment, GATEHOUSE_PRIVATE_KEY: file });
      await expect(failure).rejects.toThrow(
        /key\.jwk is not a private key: it must be a JWK for Ed25519, P-256 or RSA\.$/,
      );
    },
  );
});
