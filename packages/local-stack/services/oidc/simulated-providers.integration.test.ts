import { createHash, randomBytes, randomUUID } from "node:crypto";
import { createClient, type User } from "@supabase/supabase-js";
import { afterAll, describe, expect, test } from "vitest";
import { playedProviders } from "../../../../scripts/start/identity-environment.ts";
import { readStack } from "../../../../scripts/test/stack.ts";
import { simulatedProviders } from "./simulated-providers.ts";
import { openBrowser } from "./test-server.ts";

const { base, oidc, supabase } = readStack();
const played = [...playedProviders({ isBinary: !!process.env.IDENTITY_BIN }), "keycloak"];
const plays = (provider: string) => played.includes(provider);
const admin = createClient(supabase.url, supabase.secretKey, { auth: { persistSession: false } });
const made: string[] = [];
afterAll(async () => {
  for (const id of made) await admin.auth.admin.deleteUser(id);
});

/** Scopes that a client requests in addition to Supabase Auth's own. */
const scopes: Partial<Record<string, string>> = { azure: "email", keycloak: "openid" };

/**
 * Signs in through the stack as a browser does, with PKCE. @returns the parameters of the redirect to the web server
 */
async function signIn(provider: string, form: Record<string, string>) {
  const verifier = randomBytes(42).toString("base64url");
  const query = new URLSearchParams({
    provider,
    redirect_to: `${base}/healthz`,
    scopes: scopes[provider] ?? "",
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "s256",
  });
  const begun = await fetch(`${supabase.url}/auth/v1/authorize?${query}`, { redirect: "manual" });
  const open = openBrowser(oidc);
  const page = await (await open(begun.headers.get("location") ?? "")).text();
  const answer = await open(/<form method="post" action="([^"]+)"/.exec(page)?.[1] ?? "", form);
  const back = answer.headers.get("location") ?? "";
  const ended = back ? await fetch(back, { redirect: "manual" }) : await postOn(await answer.text());
  const target = new URL(ended.headers.get("location") ?? "");
  return { target, query: Object.fromEntries(target.searchParams), verifier };
}

/** Submits a page's hidden form, as a browser does automatically. */
function postOn(page: string): Promise<Response> {
  const action = /<form method="post" action="([^"]+)"/.exec(page)?.[1] ?? "";
  const fields = [...page.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)];
  const body = fields.map(([, name = "", value = ""]) => [name, value.replaceAll("&quot;", '"')]);
  return fetch(action, { method: "POST", body: new URLSearchParams(Object.fromEntries(body)), redirect: "manual" });
}

async function userOf(code: string, verifier: string): Promise<User> {
  const answer = await fetch(`${supabase.url}/auth/v1/token?grant_type=pkce`, {
    method: "POST",
    headers: { apikey: supabase.publishableKey, "Content-Type": "application/json" },
    body: JSON.stringify({ auth_code: code, code_verifier: verifier }),
  });
  const body = (await answer.json()) as { user: User };
  expect(answer.status, JSON.stringify(body)).toBe(200);
  made.push(body.user.id);
  return body.user;
}

const newEmail = () => `${randomUUID()}@simulated.example.test`;

describe.each(played)("Signing in with %s on the local stack", (provider) => {
  test("a sign-in with a verified email creates an account with an identity of the provider", async () => {
    const email = newEmail();
    const { target, query, verifier } = await signIn(provider, { email, verified: "on" });
    expect(target.origin).toBe(base);
    const user = await userOf(query.code ?? "", verifier);
    expect(user).toMatchObject({ email, email_confirmed_at: expect.any(String) });
    expect(user.identities).toMatchObject([{ provider, identity_data: { email, email_verified: true } }]);
  });

  test("returns access_denied if the user cancels the provider's sign-in", async () => {
    const { target, query } = await signIn(provider, { cancel: "yes" });
    expect(target.origin).toBe(base);
    expect(query).toMatchObject({ error: "access_denied" });
    expect(query).not.toHaveProperty("code");
  });
});

test.each(["google", "azure", "github", "keycloak"].filter(plays))(
  "does not sign in a user whose email %s has not verified",
  async (provider) => {
    const { query } = await signIn(provider, { email: newEmail() });
    expect(query).toMatchObject({ error: "access_denied", error_code: "provider_email_needs_verification" });
  },
);

test.each(["apple"].filter(plays))("a sign-in with %s returns a verified email and the user's name", async (apple) => {
  const email = newEmail();
  const { query, verifier } = await signIn(apple, { email });
  const user = await userOf(query.code ?? "", verifier);
  expect(user.user_metadata).toMatchObject({ email, email_verified: true, full_name: email.split("@")[0] });
});

test("the settings list every simulated provider as enabled", async () => {
  const answer = await fetch(`${supabase.url}/auth/v1/settings`, { headers: { apikey: supabase.publishableKey } });
  const { external } = (await answer.json()) as { external: Record<string, boolean> };
  for (const name of played) expect(external[name]).toBe(true);
  expect(external.gitlab).toBe(false);
  expect(Object.keys(simulatedProviders)).not.toContain("gitlab");
});
