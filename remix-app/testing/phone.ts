import { createClient } from "@supabase/supabase-js";
import { visitorHeaders } from "./visitor.ts";

/** A signed-in app on a phone. It sends its session as a bearer token, without cookies. */
export interface Phone {
  sessionId: string;
  accessToken: string;
  get<Body = unknown>(path: string): Promise<PhoneAnswer<Body>>;
  post<Body = unknown>(path: string, body: unknown): Promise<PhoneAnswer<Body>>;
  /** Ends the app's session at the identity backend. */
  signOut(): Promise<void>;
}

interface PhoneAnswer<Body> {
  status: number;
  body: Body;
  setCookies: string[];
}

export interface PhoneOptions {
  email: string;
  password: string;
  /** The factor and the code that raise the session to AAL2. */
  prove?: { factorId: string; code: string };
}

/** The data that an unlocked phone sends about itself. */
export const unlockedPhone = { name: "Ada's phone", platform: "ios", appLock: true, localAuthentication: "biometric" };

/** Signs in like a mobile app, directly with the identity backend. */
export async function openPhone(
  { base, url, publishableKey }: { base: string; url: string; publishableKey: string },
  { email, password, prove }: PhoneOptions,
): Promise<Phone> {
  const { auth } = createClient(url, publishableKey, { auth: { persistSession: false, autoRefreshToken: false } });
  const { error } = await auth.signInWithPassword({ email, password });
  if (error) throw error;
  if (prove) {
    const { error: refused } = await auth.mfa.challengeAndVerify(prove);
    if (refused) throw refused;
  }
  const { data } = await auth.getSession();
  if (!data.session) throw new Error("no session");
  const { access_token: accessToken } = data.session;
  const claims = JSON.parse(Buffer.from(accessToken.split(".")[1] ?? "", "base64url").toString());
  const { "x-forwarded-for": address = "" } = visitorHeaders();
  async function send<Body>(
    path: string,
    init: RequestInit & { headers?: Record<string, string> } = {},
  ): Promise<PhoneAnswer<Body>> {
    const own = { authorization: `Bearer ${accessToken}`, "x-forwarded-for": address };
    const response = await fetch(new URL(path, base), { ...init, headers: { ...own, ...init.headers } });
    const text = await response.text();
    const body = text === "" ? null : JSON.parse(text);
    return { status: response.status, body, setCookies: response.headers.getSetCookie() };
  }
  return {
    sessionId: claims.session_id,
    accessToken,
    get: (path) => send(path),
    post: (path, body) =>
      send(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
    signOut: async () => {
      await auth.signOut({ scope: "local" });
    },
  };
}
