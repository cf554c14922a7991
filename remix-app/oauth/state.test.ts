import { createHash } from "node:crypto";
import fc from "fast-check";
import { SignJWT } from "jose";
import { afterEach, describe, expect, test, vi } from "vitest";
import { parseEnv } from "../config/env.server.ts";
import { deriveServerKey } from "../crypto/derived-key.ts";
import { type CookieJar, createCookieJar } from "../http/cookies.ts";
import { clearStateCookie, createState, type OAuthState, readState, writeStateCookie } from "./state.ts";

const env = parseEnv({
  NODE_ENV: "test",
  BASE_URL: "https://app.example.com",
  SUPABASE_URL: "https://ref.supabase.co",
  SUPABASE_PUBLISHABLE_KEY: "sb_publishable_x",
  SUPABASE_SECRET_KEY: "sb_secret_x",
});
const signIn: OAuthState = { purpose: "sign_in", provider: "google", returnTo: "/workspaces?sort=name" };
const link: OAuthState = {
  purpose: "link",
  provider: "github",
  returnTo: "/settings/security",
  userId: "6f1c1b52-6e64-4b0a-9a39-0c5f3b8f7f11",
  sessionId: "0b9dbb1c-5a0c-4f7e-8f0f-0f8b62a2d7aa",
};

const contextOf = (jar: CookieJar, origin = "https://app.example.com") => ({ env, jar, origin });
const cookieOf = (jar: CookieJar) => jar.getAll().map(({ name, value }) => `${name}=${value}`)[0] ?? "";

/**
 * Starts a visit to a provider, with this payload in the browser's cookie. Returns the cookie and the state that the
 * provider sends back.
 */
async function setOut(payload: OAuthState = signIn) {
  const { state } = createState(env);
  const jar = createCookieJar(null);
  await writeStateCookie(contextOf(jar), { state, payload });
  return { state, jar, cookie: cookieOf(jar) };
}

const comeBack = (cookie: string, state: string | null) => readState(contextOf(createCookieJar(cookie)), state);

/** Creates a cookie signed with another key, or signed by us for another purpose. */
async function forge(
  state: string,
  {
    claims = { ...signIn, state },
    key = deriveServerKey(env, "oauth state"),
    audience = "/auth/callback",
    expires = "10m",
  }: { claims?: Record<string, unknown>; key?: Uint8Array; audience?: string; expires?: string } = {},
) {
  const token = await new SignJWT(claims)
    .setProtectedHeader({ alg: "HS256" })
    .setAudience(audience)
    .setIssuedAt()
    .setExpirationTime(expires)
    .sign(key);
  return `__Secure-gh_oauth=${state}.${token}`;
}

afterEach(() => {
  vi.useRealTimers();
});

describe("the OAuth state sent to a provider", () => {
  test.each([signIn, link])("a state with the purpose $purpose returns with its payload unchanged", async (payload) => {
    const { state, cookie } = await setOut(payload);
    expect(await comeBack(cookie, state)).toMatchObject({ payload, values: { state } });
  });

  test("a state is kept in a cookie for ten minutes, for the callback only", async () => {
    const { jar } = await setOut();
    const [header = "", ...more] = jar.setCookieHeaders();
    expect(more).toEqual([]);
    expect(header).toMatch(/^__Secure-gh_oauth=[A-Za-z0-9_-]{43}\./);
    expect(header.split("; ").slice(1).sort()).toEqual([
      "HttpOnly",
      "Max-Age=600",
      "Path=/auth/callback",
      "SameSite=Lax",
      "Secure",
    ]);
    clearStateCookie(contextOf(jar));
    expect(jar.setCookieHeaders()[0]).toMatch(/^__Secure-gh_oauth=; Max-Age=0; Path=\/auth\/callback;/);
  });

  test("a state's cookie has no prefix on http, because browsers refuse prefixed cookies there", async () => {
    const jar = createCookieJar(null);
    const { state } = createState(env);
    await writeStateCookie(contextOf(jar, "http://localhost:3000"), { state, payload: signIn });
    expect(jar.setCookieHeaders()[0]).toMatch(/^gh_oauth=/);
    expect(jar.setCookieHeaders()[0]).not.toContain("Secure");
  });

  test("rejects an OAuth callback without a cookie or state, or with another visit's cookie or state", async () => {
    const [one, other] = [await setOut(), await setOut()];
    expect(await comeBack("", one.state)).toBeNull();
    expect(await comeBack(one.cookie, null)).toBeNull();
    expect(await comeBack(one.cookie, "")).toBeNull();
    expect(await comeBack(one.cookie, other.state)).toBeNull();
    expect(await comeBack(other.cookie, one.state)).toBeNull();
  });

  test("compares a state with its cookie before verifying any signature", async () => {
    const { state, cookie } = await setOut();
    const verify = vi.spyOn(crypto.subtle, "verify");
    expect(await comeBack(cookie, createState(env).state)).toBeNull();
    expect(verify).not.toHaveBeenCalled();
    expect(await comeBack(cookie, state)).not.toBeNull();
    expect(verify).toHaveBeenCalledOnce();
    verify.mockRestore();
  });

  test("a state expires after ten minutes", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const { state, cookie } = await setOut();
    vi.setSystemTime(Date.now() + 599_000);
    expect(await comeBack(cookie, state)).not.toBeNull();
    vi.setSystemTime(Date.now() + 2_000);
    expect(await comeBack(cookie, state)).toBeNull();
  });

  test("refuses a state that we didn't sign for exactly this use", async () => {
    const { state } = createState(env);
    expect(await comeBack(await forge(state), state)).not.toBeNull();
    const wrong = [
      forge(state, { key: deriveServerKey({ SUPABASE_SECRET_KEY: "sb_secret_y" }, "oauth state") }),
      forge(state, { key: deriveServerKey(env, "oauth code verifier") }),
      forge(state, { audience: "/auth/confirm" }),
      forge(state, { expires: "-1s" }),
      forge(state, { claims: { ...signIn, state: createState(env).state } }),
      forge(state, { claims: { ...signIn } }),
      forge(state, { claims: { ...link, state, userId: "somebody" } }),
      forge(state, { claims: { ...signIn, state, userId: "6f1c1b52-6e64-4b0a-9a39-0c5f3b8f7f11" } }),
      forge(state, { claims: { ...signIn, state, purpose: "workspace" } }),
      forge(state, { claims: { ...signIn, state, provider: "elsewhere" } }),
    ];
    for (const cookie of await Promise.all(wrong)) expect(await comeBack(cookie, state)).toBeNull();
    const [, unsigned = ""] = (await forge(state)).split(".");
    const none = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");
    expect(await comeBack(`__Secure-gh_oauth=${state}.${none}.${unsigned}.`, state)).toBeNull();
  });

  test("never accepts arbitrary text as a state", async () => {
    await fc.assert(
      fc.asyncProperty(fc.string(), fc.string(), async (cookie, state) => {
        const jar = createCookieJar(null);
        jar.set("__Secure-gh_oauth", cookie);
        expect(await readState(contextOf(jar), state)).toBeNull();
      }),
      { numRuns: 10_000 },
    );
  }, 30_000);
});

describe("values derived from a state", () => {
  test("values derived from a state are different for each state and always the same for one state", async () => {
    const values = createState(env);
    expect(values.state).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(values.verifier).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(values.challenge).toBe(createHash("sha256").update(values.verifier).digest("base64url"));
    expect(createState(env).verifier).not.toBe(values.verifier);

    const jar = createCookieJar(null);
    await writeStateCookie(contextOf(jar), { state: values.state, payload: signIn });
    expect((await comeBack(cookieOf(jar), values.state))?.values).toEqual(values);
    expect(cookieOf(jar)).not.toContain(values.verifier);
    expect(Buffer.from(cookieOf(jar).split(".")[2] ?? "", "base64url").toString()).not.toContain(values.verifier);
  });
});
