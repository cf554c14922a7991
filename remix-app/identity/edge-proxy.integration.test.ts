import { createClient } from "@supabase/supabase-js";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createClaimsVerifier } from "#shared/claims.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { parseEnv } from "../env.server.ts";
import { createCookieJar } from "../http/cookies.ts";
import { createAuthClient, createDataClient, identityHeaders } from "./clients.ts";
import { createEdgeProxy } from "./edge-proxy.ts";
import { createSessionRefresher } from "./refresh.ts";
import { readSessionCookie, type StoredSession, sessionCookieScope, writeSessionCookie } from "./session-cookie.ts";
import { fetchSessionState } from "./session-state.ts";

const stack = readStack();
const { url, publishableKey, secretKey } = stack.supabase;
const env = parseEnv({
  NODE_ENV: "test",
  BASE_URL: stack.base,
  SUPABASE_URL: url,
  SUPABASE_PUBLISHABLE_KEY: publishableKey,
  SUPABASE_SECRET_KEY: secretKey,
});
const scope = sessionCookieScope({ supabaseUrl: url, origin: stack.base });
const { admin } = createClient(url, secretKey, { auth: { persistSession: false } }).auth;
const hourMs = 60 * 60 * 1000;

let userId: string;
let email: string;
const password = "correct horse battery staple";

beforeEach(async () => {
  email = `${crypto.randomUUID()}@integration.gatehouse.test`;
  const { data, error } = await admin.createUser({ email, password, email_confirm: true });
  if (error) throw error;
  userId = data.user.id;
});
afterEach(() => admin.deleteUser(userId));

/** Signs in as a form of ours does. @returns the session in the cookie */
async function signIn(): Promise<StoredSession> {
  const jar = createCookieJar(null);
  const client = createAuthClient({ env, jar, scope, clientAddress: randomAddress() });
  const { error } = await client.auth.signInWithPassword({ email, password });
  if (error) throw error;
  const session = await readSessionCookie(jar, scope);
  if (!session) throw new Error("The sign-in wrote no session.");
  return session;
}

/** Visitors of these tests do not share one address's limits. */
function randomAddress(): string {
  return `198.51.100.${Math.floor(Math.random() * 254) + 1}`;
}

/** A proxy in a process of its own, whose clock is ahead by so much. */
function startProxy(aheadMs: number) {
  const calls: string[] = [];
  const countingFetch: typeof fetch = (input, init) => {
    calls.push(String(input));
    return fetch(input, init);
  };
  const proxy = createEdgeProxy({
    verifyClaims: createClaimsVerifier({ supabaseUrl: url }),
    refreshSession: createSessionRefresher({ supabaseUrl: url, fetch: countingFetch }),
    now: () => Date.now() + aheadMs,
  });
  return {
    calls,
    async visit(session: StoredSession) {
      const jar = createCookieJar(null);
      writeSessionCookie(jar, scope, session);
      const sent = createCookieJar(
        jar
          .getAll()
          .map(({ name, value }) => `${name}=${value}`)
          .join("; "),
      );
      const auth = await proxy({
        authorization: null,
        jar: sent,
        scope,
        identityHeaders: identityHeaders(env, randomAddress()),
      });
      return { auth, kept: await readSessionCookie(sent, scope) };
    },
  };
}

const stateOf = (accessToken: string) => fetchSessionState(accessToken, { supabaseUrl: url, publishableKey });

describe("against the running backend", () => {
  test("a sign-in is known by its claims, and alive in the database", async () => {
    const session = await signIn();
    const { auth } = await startProxy(0).visit(session);
    expect(auth).toMatchObject({ status: "authenticated", claims: { sub: userId, aal: "aal1" } });
    expect(await stateOf(session.access_token)).toMatchObject({
      status: "alive",
      facts: { user: { id: userId, email } },
    });
  });

  test("20 requests with one expired token make one refresh, and its result works", async () => {
    const session = await signIn();
    const { visit, calls } = startProxy(hourMs);
    const results = await Promise.all(Array.from({ length: 20 }, () => visit(session)));
    expect(calls).toHaveLength(1);
    const tokens = new Set(results.map(({ kept }) => kept?.refresh_token));
    expect(tokens.size).toBe(1);
    expect(tokens).not.toContain(session.refresh_token);
    for (const { auth } of results) expect(auth.status).toBe("authenticated");
    const [first] = results;
    const { data } = await createDataClient(env, first?.kept?.access_token ?? "")
      .from("profiles")
      .select("id");
    expect(data).toEqual([{ id: userId }]);
  });

  test("two servers that refresh one token at once both keep the session", async () => {
    const session = await signIn();
    const [one, other] = await Promise.all([startProxy(hourMs).visit(session), startProxy(hourMs).visit(session)]);
    for (const { auth, kept } of [one, other]) {
      expect(auth.status).toBe("authenticated");
      expect((await startProxy(hourMs).visit(kept ?? session)).auth.status).toBe("authenticated");
    }
  });

  test("a session that was signed out elsewhere is over, and its refresh is refused for good", async () => {
    const session = await signIn();
    await admin.signOut(session.access_token, "local");
    expect(await stateOf(session.access_token)).toEqual({ status: "over" });
    const { auth, kept } = await startProxy(hourMs).visit(session);
    expect(auth.status).toBe("anonymous");
    expect(kept).toBeNull();
  });

  test("a banned user's session is over at once", async () => {
    const session = await signIn();
    await admin.updateUserById(userId, { ban_duration: "1h" });
    expect(await stateOf(session.access_token)).toEqual({ status: "over" });
    expect((await startProxy(hourMs).visit(session)).auth.status).toBe("anonymous");
  });

  test("a deleted user's session is over at once", async () => {
    const session = await signIn();
    await admin.deleteUser(userId);
    expect(await stateOf(session.access_token)).toEqual({ status: "over" });
    expect((await startProxy(hourMs).visit(session)).auth.status).toBe("anonymous");
  });

  test("a token that is none of the backend's is refused by the Data API", async () => {
    expect(await stateOf("x.y.z")).toEqual({ status: "refused" });
  });
});
