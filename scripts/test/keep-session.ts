import { readFileSync } from "node:fs";
import path from "node:path";
import { createClient } from "@supabase/supabase-js";
import { decodeJwt, importJWK, type JWTPayload, SignJWT } from "jose";
import { z } from "zod";
import { decodeIssuedClaims } from "#shared/claims.ts";
import { parseEnv } from "../../remix-app/config/env.server.ts";
import { createCookieJar } from "../../remix-app/http/cookies.ts";
import {
  newDevice,
  type StoredSession,
  secretHash,
  sessionCookieScope,
  writeDeviceCookie,
  writeSessionCookie,
} from "../../remix-app/session/cookies.ts";
import { openVault, type Vault } from "../../remix-app/session/vault.ts";
import { newAddress } from "../../remix-app/testing/visitor.ts";
import { appSessionSecret } from "../start/secrets.ts";
import { readStack } from "./stack.ts";

const { base, supabase } = readStack();
let opened: Promise<Vault> | undefined;

/** The secrets of the stack's own servers. */
const secretsSchema = z.object({
  accountsSecret: z.string(),
  jwtSecret: z.string(),
  signingKey: z.looseObject({ kid: z.string(), key_ops: z.unknown(), use: z.unknown() }),
});

function readSecrets() {
  const file = path.join(path.dirname(process.env.GATEHOUSE_STACK ?? ""), "secrets.json");
  return secretsSchema.parse(JSON.parse(readFileSync(file, "utf8")));
}

/** Signs an access token with these claims as the stack's identity backend does. */
export async function signAsStack(claims: JWTPayload): Promise<string> {
  const { key_ops: _, use: __, ...signingKey } = readSecrets().signingKey;
  return new SignJWT(claims)
    .setProtectedHeader({ alg: "ES256", kid: signingKey.kid, typ: "JWT" })
    .sign(await importJWK({ ...signingKey, kty: "EC" }, "ES256"));
}

/** Returns the session as it would be an hour later, with an expired access token. */
export async function expired(session: StoredSession): Promise<StoredSession> {
  const nowSeconds = Math.floor(Date.now() / 1000);
  const claims = { ...decodeJwt(session.access_token), iat: nowSeconds - 3_610, exp: nowSeconds - 10 };
  return { ...session, access_token: await signAsStack(claims), expires_at: nowSeconds - 10 };
}

/** Returns the settings that let a test's own server decrypt the sessions that the stack stores. */
export function vaultSettings(): Record<string, string> {
  return { WEB_MULTI_ACCOUNT_SESSION_SECRET: readSecrets().accountsSecret };
}

/** Returns the settings with which a test's own server signs and refreshes apps' tokens as the stack's server does. */
export function appSettings(): Record<string, string> {
  return { APP_SESSION_SECRET: appSessionSecret(readSecrets()) };
}

/** Opens the vault of the stack under test. Uses the same key as the stack's server. */
export function openTestVault(): Promise<Vault> {
  opened ??= openVault(
    parseEnv({
      NODE_ENV: "test",
      BASE_URL: base,
      SUPABASE_URL: supabase.url,
      SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
      SUPABASE_SECRET_KEY: supabase.secretKey,
      ...vaultSettings(),
    }),
  );
  return opened;
}

/** Returns the Cookie header of a browser that signed in with this session, without using the sign-in page. */
export async function keepSession(session: StoredSession, { origin = base } = {}): Promise<string> {
  const vault = await openTestVault();
  const device = newDevice();
  const { sub: userId, session_id: sessionId } = decodeIssuedClaims(session.access_token);
  const { sealed, keyId, tag } = await vault.seal(device, { userId, session });
  await vault.call("sign_in_account", {
    args: {
      sign_in: { deviceId: device.id, nextHash: secretHash(device), userId, sessionId, sealed, keyId, tag },
    },
    schema: z.object({ status: z.literal("kept") }),
  });
  const jar = createCookieJar(null);
  writeSessionCookie(jar, sessionCookieScope({ supabaseUrl: supabase.url, origin }), session);
  writeDeviceCookie(jar, { origin, cookie: vault.keys.cookie, device });
  return jar
    .getAll()
    .map(({ name, value }) => `${name}=${value}`)
    .join("; ");
}

/** Returns the Cookie header of a signed-in browser, without using the sign-in page, which is slow. */
export async function cookieOf({ email, password }: { email: string; password: string }): Promise<string> {
  const { auth } = createClient(supabase.url, supabase.publishableKey, {
    auth: { persistSession: false, autoRefreshToken: false },
    global: { headers: { apikey: supabase.secretKey, "Sb-Forwarded-For": newAddress() } },
  });
  const { data, error } = await auth.signInWithPassword({ email, password });
  if (error) throw error;
  const { access_token, refresh_token, expires_in, expires_at = 0 } = data.session;
  return keepSession({ access_token, refresh_token, expires_in, expires_at, token_type: "bearer" });
}
