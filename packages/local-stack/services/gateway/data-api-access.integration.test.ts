import { createClient } from "@supabase/supabase-js";
import { generateKeyPair, SignJWT, UnsecuredJWT } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readStack } from "../../../../scripts/test/stack.ts";

const { supabase } = readStack();
const admin = createClient(supabase.url, supabase.secretKey, { auth: { persistSession: false } });
const email = `access-${crypto.randomUUID()}@clients.test`;
const password = "correct horse battery staple";
let userId: string;
let token: string;

beforeAll(async () => {
  const { data, error } = await admin.auth.admin.createUser({ email, password, email_confirm: true });
  if (error) throw error;
  userId = data.user.id;
  const client = createClient(supabase.url, supabase.publishableKey, { auth: { persistSession: false } });
  const signedIn = await client.auth.signInWithPassword({ email, password });
  token = signedIn.data.session?.access_token ?? "";
});

afterAll(() => admin.auth.admin.deleteUser(userId));

async function profiles(headers: Record<string, string>) {
  const response = await fetch(`${supabase.url}/rest/v1/profiles?select=id`, { headers });
  return { status: response.status, body: await response.json() };
}

const claims = () => ({
  sub: userId,
  role: "authenticated",
  aud: "authenticated",
  iss: `${supabase.url}/auth/v1`,
  exp: Math.floor(Date.now() / 1000) + 600,
});
const kidOf = (jwt: string): string => JSON.parse(Buffer.from(jwt.split(".")[0] ?? "", "base64url").toString()).kid;

describe("User tokens sent directly to /rest/v1", () => {
  test("a user's token gives access to the user's rows", async () => {
    expect(await profiles({ apikey: supabase.publishableKey, authorization: `Bearer ${token}` })).toEqual({
      status: 200,
      body: [{ id: userId }],
    });
  });

  test("a user's token still acts as the user when sent with the secret key", async () => {
    expect((await profiles({ apikey: supabase.secretKey, authorization: `Bearer ${token}` })).body).toEqual([
      { id: userId },
    ]);
  });

  test("a user's token gives no access without an API key", async () => {
    expect(await profiles({ authorization: `Bearer ${token}` })).toMatchObject({
      status: 401,
      body: { message: "No API key found in request" },
    });
  });

  test("a user's token is not accepted as an API key", async () => {
    expect(await profiles({ apikey: token })).toMatchObject({ status: 401, body: { message: "Invalid API key" } });
  });

  test("a signed user token cannot be changed to another role, user or schema", async () => {
    const [header, payload, signature] = token.split(".");
    const changed = { ...JSON.parse(Buffer.from(payload ?? "", "base64url").toString()), role: "service_role" };
    const forged = `${header}.${Buffer.from(JSON.stringify(changed)).toString("base64url")}.${signature}`;
    expect(await profiles({ apikey: supabase.publishableKey, authorization: `Bearer ${forged}` })).toMatchObject({
      status: 401,
      body: { code: "PGRST301" },
    });
  });
});

describe("Tokens that the identity backend did not issue", () => {
  const refused = async (jwt: string) => {
    const { status, body } = await profiles({ apikey: supabase.publishableKey, authorization: `Bearer ${jwt}` });
    return [status, body.code];
  };

  test("refuses an unsigned token", async () => {
    expect(await refused(new UnsecuredJWT(claims()).encode())).toEqual([401, "PGRST301"]);
  });

  test("refuses a token signed by another key, whether under the published key id or another id", async () => {
    const { privateKey } = await generateKeyPair("ES256");
    for (const kid of [kidOf(token), "another"]) {
      const jwt = await new SignJWT(claims()).setProtectedHeader({ alg: "ES256", kid }).sign(privateKey);
      expect(await refused(jwt)).toEqual([401, "PGRST301"]);
    }
  });

  test("refuses an HS256 token whose shared secret is the published public key", async () => {
    const response = await fetch(`${supabase.url}/auth/v1/.well-known/jwks.json`);
    const { keys } = (await response.json()) as { keys: Record<string, string>[] };
    for (const secret of [JSON.stringify(keys[0]), keys[0]?.x ?? ""]) {
      const key = new TextEncoder().encode(secret);
      const jwt = await new SignJWT(claims()).setProtectedHeader({ alg: "HS256", kid: kidOf(token) }).sign(key);
      expect(await refused(jwt)).toEqual([401, "PGRST301"]);
    }
  });

  test("refuses a bearer value that is not a token", async () => {
    expect(await refused("nonsense")).toEqual([401, "PGRST301"]);
    expect(await refused(`${supabase.secretKey}_`)).toEqual([401, undefined]);
  });
});

describe("cross-origin access to the Data API", () => {
  test("a page from another origin may send the requests and read the headers that a client needs", async () => {
    const preflight = await fetch(`${supabase.url}/rest/v1/profiles`, {
      method: "OPTIONS",
      headers: {
        origin: "https://app.test",
        "access-control-request-method": "GET",
        "access-control-request-headers": "accept-profile,apikey,authorization,x-client-info",
      },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get("access-control-allow-headers")).toContain("accept-profile");
    const headers = { apikey: supabase.publishableKey, authorization: `Bearer ${token}`, prefer: "count=exact" };
    const answer = await fetch(`${supabase.url}/rest/v1/profiles?select=id`, { headers });
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    expect(answer.headers.get("access-control-expose-headers")).toContain("Content-Range");
    expect(answer.headers.get("content-range")).toBe("0-0/1");
  });
});
