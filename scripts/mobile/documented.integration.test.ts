import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { confirmationLink } from "../../e2e/mailbox.ts";
import { codeOf } from "../../remix-app/testing/authenticator-app.ts";
import { openBrowser } from "../../remix-app/testing/browser.ts";
import { oauthJourney } from "../../remix-app/testing/oauth-journey.ts";
import { visitProvider } from "../../remix-app/testing/provider-visit.ts";
import { createPerson, deletePerson, type Person, query } from "../test/people.ts";
import { readStack } from "../test/stack.ts";

// Checks what docs/mobile.md says about supabase-js, on the stack under test.

const stack = readStack();
const { base, supabase } = stack;
const journey = oauthJourney(stack);
/** The redirect target, instead of an app's own URL. Supabase Auth accepts any loopback IP address. */
const appOrigin = "http://127.0.0.1:9";

function openApp(): SupabaseClient {
  const held = new Map<string, string>();
  const storage = {
    getItem: (key: string) => held.get(key) ?? null,
    setItem: (key: string, value: string) => void held.set(key, value),
    removeItem: (key: string) => void held.delete(key),
  };
  const auth = { storage, persistSession: true, autoRefreshToken: false, detectSessionInUrl: false };
  return createClient(supabase.url, supabase.publishableKey, { auth: { ...auth, flowType: "pkce" } });
}

const assuranceOf = async ({ auth }: SupabaseClient) =>
  (await auth.mfa.getAuthenticatorAssuranceLevel()).data?.currentLevel;

describe("Authenticators enrolled by an app", () => {
  let person: Person;
  beforeEach(async () => {
    person = await createPerson();
    return () => deletePerson(person);
  });

  test("an authenticator that an app adds is unconfirmed and raises the app's session to aal2, and a second one is refused", async () => {
    const app = openApp();
    await app.auth.signInWithPassword(person);
    const enrol = () => app.auth.mfa.enroll({ factorType: "totp", friendlyName: crypto.randomUUID() });
    const { data } = await enrol();
    if (!data) throw new Error("nothing was enrolled");
    expect(data.totp.uri).toMatch(/^otpauth:\/\/totp\//);
    const code = codeOf(data.totp);
    expect((await app.auth.mfa.challengeAndVerify({ factorId: data.id, code })).error).toBeNull();
    expect(await assuranceOf(app)).toBe("aal2");
    expect(await query("select target_id from private.unconfirmed_additions where user_id = $1", [person.id])).toEqual([
      { target_id: data.id },
    ]);

    const { data: second } = await enrol();
    const again = await app.auth.mfa.challengeAndVerify({
      factorId: second?.id ?? "",
      code: codeOf(second?.totp ?? { secret: "" }),
    });
    expect([again.error?.status, again.error?.name]).toEqual([403, "AuthApiError"]);

    const other = openApp();
    await other.auth.signInWithPassword(person);
    const { error } = await other.auth.mfa.enroll({ factorType: "totp", friendlyName: "Another" });
    expect([error?.status, error?.code]).toEqual([403, "insufficient_aal"]);
  });
});

describe("Provider sign-ins in an app", () => {
  const begin = async (app: SupabaseClient, redirectTo: string) => {
    const { data } = await app.auth.signInWithOAuth({
      provider: journey.provider as "github",
      options: { redirectTo, skipBrowserRedirect: true },
    });
    return data.url ?? "";
  };

  test("a provider sign-in returns to the app's own URL with a code that only the app can exchange", async () => {
    const app = openApp();
    const back = await visitProvider(await begin(app, `${appOrigin}/signed-in`), {
      ourOrigin: appOrigin,
      email: journey.newEmail(),
    });
    expect(new URL(back).pathname).toBe("/signed-in");
    const code = new URL(back).searchParams.get("code") ?? "";
    expect((await openApp().auth.exchangeCodeForSession(code)).error).not.toBeNull();
    expect((await app.auth.exchangeCodeForSession(code)).error).toBeNull();
    expect(await assuranceOf(app)).toBe("aal1");
  });

  test("a provider sign-in ends on the website if the redirect list lacks the app's URL", async () => {
    const back = await visitProvider(await begin(openApp(), "com.example.app://signed-in"), {
      ourOrigin: base,
      email: journey.newEmail(),
    });
    expect(new URL(back).origin).toBe(base);
  });
});

describe("Sign-ups in an app", () => {
  const password = "correct horse battery";
  let email: string;
  beforeEach(() => {
    email = `${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
  });
  afterEach(() => query("delete from auth.users where email = $1", [email]));
  async function signUp() {
    const app = createClient(supabase.url, supabase.publishableKey, {
      auth: { flowType: "implicit", persistSession: false, autoRefreshToken: false },
    });
    expect((await app.auth.signUp({ email, password })).error).toBeNull();
    return { app, link: new URL(await confirmationLink(email)) };
  }

  test("a sign-up made in an app and confirmed in a browser needs a new password, and the original password stops working", async () => {
    const { app, link } = await signUp();
    const answer = await openBrowser(base).post("/auth/confirm", Object.fromEntries(link.searchParams));
    expect(answer.location).toMatch(/^\/reset-password\?first=/);
    expect((await app.auth.signInWithPassword({ email, password })).error?.code).toBe("invalid_credentials");
  });

  test("confirming a sign-up in the app with the link's token signs the app in and keeps the password", async () => {
    const { app, link } = await signUp();
    const token_hash = link.searchParams.get("token_hash") ?? "";
    expect((await app.auth.verifyOtp({ token_hash, type: "signup" })).error).toBeNull();
    expect((await app.auth.signInWithPassword({ email, password })).error).toBeNull();
  });
});

describe("emailed codes in an app", () => {
  test("refuses an emailed code for an unknown email, with a message that the app should not display", async () => {
    const { error } = await openApp().auth.signInWithOtp({
      email: `${crypto.randomUUID()}@integration.gatehouse.test`,
      options: { shouldCreateUser: false },
    });
    expect([error?.status, error?.code]).toEqual([422, "otp_disabled"]);
  });
});

describe("Sign-outs in an app", () => {
  let person: Person;
  beforeEach(async () => {
    person = await createPerson();
    return () => deletePerson(person);
  });

  /**
   * Calls the platform and the Data API with an access token. @returns the status, and how many profiles can be read
   */
  async function reach(token: string) {
    const headers = { authorization: `Bearer ${token}`, apikey: supabase.publishableKey };
    const platform = await fetch(new URL("/api/v1/workspaces", base), { headers });
    const data = await fetch(`${supabase.url}/rest/v1/profiles?select=id`, { headers });
    return [platform.status, data.ok ? ((await data.json()) as unknown[]).length : data.status];
  }

  test.each([
    { scope: "local", mine: [401, 0], other: [200, 1] },
    { scope: "others", mine: [200, 1], other: [401, 0] },
    { scope: "global", mine: [401, 0], other: [401, 0] },
  ] as const)(
    "a sign-out with scope $scope ends the sessions in that scope immediately",
    async ({ scope, mine, other }) => {
      const [app, elsewhere] = [openApp(), openApp()];
      const tokens = [];
      for (const { auth } of [app, elsewhere])
        tokens.push((await auth.signInWithPassword(person)).data.session?.access_token);
      for (const token of tokens) expect(await reach(token ?? "")).toEqual([200, 1]);
      expect((await app.auth.signOut({ scope })).error).toBeNull();
      expect([await reach(tokens[0] ?? ""), await reach(tokens[1] ?? "")]).toEqual([mine, other]);
      expect((await app.auth.getSession()).data.session === null).toBe(scope !== "others");
    },
  );

  test("the platform's sign-out from all devices works with the app's token", async () => {
    const app = openApp();
    const { data } = await app.auth.signInWithPassword(person);
    const response = await fetch(new URL("/api/v1/auth/accounts/logout-everywhere", base), {
      method: "POST",
      headers: { authorization: `Bearer ${data.session?.access_token}` },
    });
    expect(response.status).toBe(200);
    expect(await reach(data.session?.access_token ?? "")).toEqual([401, 0]);
  });
});
