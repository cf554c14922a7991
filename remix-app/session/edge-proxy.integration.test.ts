import { createClient } from "@supabase/supabase-js";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createClaimsVerifier } from "#shared/claims.ts";
import { expired, keepSession, openTestVault } from "../../scripts/test/keep-session.ts";
import { deletePerson, insertAccount } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { parseEnv } from "../config/env.server.ts";
import { createCookieJar } from "../http/cookies.ts";
import { createDataClient } from "../supabase/data-api.ts";
import type { StoredSession } from "./cookies.ts";
import { createEdgeProxy } from "./edge-proxy.ts";
import { createSessionRefresher } from "./refresh.ts";
import { createAuthClient, openRequestSession } from "./request-session.ts";
import { fetchDeviceSessionState, fetchSessionState } from "./session-state.ts";

const stack = readStack();
const { url, publishableKey, secretKey } = stack.supabase;
const env = parseEnv({
  NODE_ENV: "test",
  BASE_URL: stack.base,
  SUPABASE_URL: url,
  SUPABASE_PUBLISHABLE_KEY: publishableKey,
  SUPABASE_SECRET_KEY: secretKey,
});
const { admin } = createClient(url, secretKey, { auth: { persistSession: false } }).auth;

let userId: string;
let email: string;
const password = "correct horse battery staple";

beforeEach(async () => {
  email = `${crypto.randomUUID()}@integration.gatehouse.test`;
  userId = await insertAccount({ email, password });
});
afterEach(() => deletePerson({ id: userId }));

/** Signs in with a password through the client that our forms use. @returns the session that the client stored */
async function signIn(): Promise<StoredSession> {
  let stored: StoredSession | null = null;
  const session = {
    get: () => stored,
    set(signedIn: StoredSession | null) {
      stored = signedIn;
    },
  };
  const client = createAuthClient({ env, clientAddress: randomAddress(), session });
  const { error } = await client.auth.signInWithPassword({ email, password });
  if (error) throw error;
  const signedIn = session.get();
  if (!signedIn) throw new Error("The sign-in stored no session.");
  return signedIn;
}

/** Returns a random address, so that these tests' visitors do not share the rate limits of one address. */
function randomAddress(): string {
  return `198.51.100.${Math.floor(Math.random() * 254) + 1}`;
}

async function startProxy() {
  const calls: string[] = [];
  const countingFetch: typeof fetch = (input, init) => {
    calls.push(String(input));
    return fetch(input, init);
  };
  const vault = await openTestVault();
  const refreshSession = createSessionRefresher({ supabaseUrl: url, fetch: countingFetch });
  const proxy = createEdgeProxy({
    verifyClaims: createClaimsVerifier({ supabaseUrl: url }),
    refreshSession,
    vault,
    fetchState: (token, options) => fetchDeviceSessionState(token, { supabaseUrl: url, publishableKey, ...options }),
  });
  return {
    calls,
    async visit(cookie: string) {
      const jar = createCookieJar(cookie);
      const { auth, stored } = await openRequestSession({
        env,
        services: { proxy, refreshSession, vault },
        jar,
        origin: stack.base,
        authorization: null,
        clientAddress: randomAddress(),
      });
      const sent = jar
        .getAll()
        .map(({ name, value }) => `${name}=${value}`)
        .join("; ");
      return { auth, sent, kept: stored };
    },
  };
}

const stateOf = (accessToken: string) =>
  fetchSessionState(accessToken, { supabaseUrl: url, publishableKey, approvalProof: null, workspace: null });

describe("the edge proxy against the running backend", () => {
  test("returns a signed-in session's user from its claims, once the database confirms that the session is active", async () => {
    const session = await signIn();
    const { auth } = await (await startProxy()).visit(await keepSession(session));
    expect(auth).toMatchObject({ status: "authenticated", claims: { sub: userId, aal: "aal1" } });
    expect(await stateOf(session.access_token)).toMatchObject({
      status: "alive",
      facts: { user: { id: userId, email } },
    });
  });

  test("20 requests with one expired token trigger one refresh, and all get the refreshed session", async () => {
    const session = await signIn();
    const cookie = await keepSession(await expired(session));
    const { visit, calls } = await startProxy();
    const results = await Promise.all(Array.from({ length: 20 }, () => visit(cookie)));
    expect(calls).toHaveLength(1);
    const tokens = new Set(results.map(({ kept }) => kept?.refresh_token));
    expect(tokens.size).toBe(1);
    expect(tokens).not.toContain(session.refresh_token);
    for (const { auth } of results) expect(auth.status).toBe("authenticated");
    const [first] = results;
    const { data } = await createDataClient(env, {
      accessToken: first?.kept?.access_token ?? "",
      approvalProof: () => null,
    })
      .from("profiles")
      .select("id");
    expect(data).toEqual([{ id: userId }]);
  });

  test("two servers that refresh one token concurrently get the same session", async () => {
    const cookie = await keepSession(await expired(await signIn()));
    const visits = await Promise.all([0, 1].map(async () => (await startProxy()).visit(cookie)));
    for (const { auth } of visits) expect(auth.status).toBe("authenticated");
    for (const { sent } of visits) {
      const again = await (await startProxy()).visit(sent);
      expect(again.auth.status).toBe("authenticated");
    }
    const [one, other] = await Promise.all(visits.map(async ({ sent }) => (await startProxy()).visit(sent)));
    expect(one?.kept).toEqual(other?.kept);
  });

  test.each([
    ["that was signed out elsewhere", (token: string) => admin.signOut(token, "local")],
    ["of a banned user", () => admin.updateUserById(userId, { ban_duration: "1h" })],
    ["of a deleted user", () => admin.deleteUser(userId)],
  ])("a session %s ends immediately, and a refresh can't restore it", async (_, end) => {
    const session = await signIn();
    const cookies = [await keepSession(session), await keepSession(await expired(session))];
    await end(session.access_token);
    expect(await stateOf(session.access_token)).toEqual({ status: "over" });
    for (const cookie of cookies) {
      const { auth, kept } = await (await startProxy()).visit(cookie);
      expect([auth.status, kept]).toEqual(["anonymous", null]);
    }
  });

  test("a token that the backend did not sign is refused by the Data API", async () => {
    expect(await stateOf("x.y.z")).toEqual({ status: "refused" });
  });
});
