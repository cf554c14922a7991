import { createClient } from "@supabase/supabase-js";
import { describe, expect, test } from "vitest";
import { newAccount, newEmail, password } from "./support/accounts.ts";
import { nextMail } from "./support/mail.ts";
import { target } from "./support/target.ts";

/** Creates the client as applications do, and removes the path prefix that a gateway would remove. */
function client(key = "publishable", options: { flowType?: "implicit" | "pkce" } = {}) {
  const stored = new Map<string, string>();
  return createClient("http://identity.test", key, {
    auth: {
      persistSession: true,
      autoRefreshToken: false,
      detectSessionInUrl: false,
      storage: {
        getItem: (name) => stored.get(name) ?? null,
        setItem: (name, value) => void stored.set(name, value),
        removeItem: (name) => void stored.delete(name),
      },
      ...options,
    },
    global: {
      fetch: (input, init) => fetch(String(input).replace("http://identity.test/auth/v1", target.url), init),
    },
  });
}

describe("the supabase-js client", () => {
  test("the supabase-js client signs up, verifies, reads claims, updates and signs out", async () => {
    const { auth } = client();
    const email = newEmail();
    const signedUp = await auth.signUp({ email, password, options: { data: { name: "N" } } });
    expect(signedUp.error).toBeNull();
    expect(signedUp.data.session).toBeNull();
    const { code } = await nextMail(email);
    const verified = await auth.verifyOtp({ type: "signup", email, token: code });
    expect(verified.data.session?.user.email).toBe(email);
    const claims = await auth.getClaims();
    expect(claims.data?.claims).toMatchObject({ email, aal: "aal1", user_metadata: { name: "N" } });
    const updated = await auth.updateUser({ data: { name: "M" } });
    expect(updated.data.user?.user_metadata.name).toBe("M");
    const refreshed = await auth.refreshSession();
    expect(refreshed.data.session?.access_token).not.toBe(verified.data.session?.access_token);
    expect((await auth.signOut()).error).toBeNull();
    expect((await auth.getSession()).data.session).toBeNull();
  });

  test("the supabase-js client reads an error's code and status", async () => {
    const { email } = await newAccount();
    const { error } = await client().auth.signInWithPassword({ email, password: "wrong horse 1" });
    expect(error).toMatchObject({ code: "invalid_credentials", status: 400, name: "AuthApiError" });
  });

  test("the supabase-js client reports the reasons why a password is weak", async () => {
    const { error } = await client().auth.signUp({ email: newEmail(), password: "12345" });
    expect(error).toMatchObject({ code: "weak_password", status: 422, reasons: ["length"] });
  });

  test("the supabase-js client reports a missing session after a sign-out elsewhere, and clears its local state", async () => {
    const [one, two] = [client().auth, client().auth];
    const { email } = await newAccount();
    await one.signInWithPassword({ email, password });
    await two.signInWithPassword({ email, password });
    await two.signOut({ scope: "global" });
    expect((await one.getUser()).error?.name).toBe("AuthSessionMissingError");
    expect((await one.getSession()).data.session).toBeNull();
  });

  test("the supabase-js client completes the PKCE flow: recovery link, code, exchange", async () => {
    const { auth } = client("publishable", { flowType: "pkce" });
    const { id, email } = await newAccount();
    expect((await auth.resetPasswordForEmail(email)).error).toBeNull();
    const { tokenHash } = await nextMail(email);
    const answer = await fetch(`${target.url}/verify?type=recovery&token=${tokenHash}`, { redirect: "manual" });
    const code = new URL(answer.headers.get("location") ?? "").searchParams.get("code") ?? "";
    const { data, error } = await auth.exchangeCodeForSession(code);
    expect(error).toBeNull();
    expect(data.user?.id).toBe(id);
  });

  test("the supabase-js client administers users", async () => {
    const { auth } = client(target.serviceKey);
    const email = newEmail();
    const created = await auth.admin.createUser({ email, password, email_confirm: true });
    expect(created.error).toBeNull();
    const id = created.data.user?.id ?? "";
    expect((await auth.admin.getUserById(id)).data.user?.email).toBe(email);
    expect((await auth.admin.listUsers()).data.users.length).toBeGreaterThan(0);
    const link = await auth.admin.generateLink({ type: "magiclink", email });
    expect(link.data.properties?.hashed_token).toMatch(/^[0-9a-f]{56}$/);
    expect((await auth.admin.updateUserById(id, { app_metadata: { plan: "team" } })).error).toBeNull();
    expect((await auth.admin.deleteUser(id)).error).toBeNull();
    expect((await auth.admin.getUserById(id)).error).toMatchObject({ code: "user_not_found", status: 404 });
  });

  test("the admin API of the supabase-js client signs out another user", async () => {
    const { auth } = client(target.serviceKey);
    const { email } = await newAccount();
    const { data } = await client().auth.signInWithPassword({ email, password });
    expect((await auth.admin.signOut(data.session?.access_token ?? "", "global")).error).toBeNull();
  });
});
