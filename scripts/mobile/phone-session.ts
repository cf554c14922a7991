import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { text } from "node:stream/consumers";
import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { Secret, TOTP } from "otpauth";
import type { MobileProject } from "./project.ts";

/** Thrown if a sign-in fails, with an explanation for the user. */
export class SignInRefusal extends Error {}

/** The project, and the access token to call it with. */
export interface Caller extends MobileProject {
  accessToken: string;
}

/** A phone with its session. */
export interface Phone {
  signIn(who: { email: string; code: string | null }): Promise<{ email: string; aal: string }>;
  signOut(): Promise<void>;
  /** Returns the project and an access token. Refreshes the token first if it is about to expire. */
  caller(): Promise<Caller>;
}

/** Opens the phone whose session is stored in a file. */
export function openPhone(project: MobileProject, sessionFile: string): Phone {
  const client = createClient(project.url, project.publishableKey, {
    auth: {
      storage: storageIn(sessionFile),
      storageKey: "session",
      autoRefreshToken: false,
      detectSessionInUrl: false,
    },
  });
  return {
    signIn: async ({ email, code }) => {
      const { error } = await client.auth.signInWithPassword({ email, password: await readPassword() });
      if (error) throw new SignInRefusal(`The sign-in was refused: ${error.message}.`);
      const given = code ?? codeFromEnvironment();
      if (given) await prove(client, given);
      const { data } = await client.auth.mfa.getAuthenticatorAssuranceLevel();
      if (data?.currentLevel === "aal1" && data.nextLevel === "aal2") {
        console.error("This account has an authenticator app. Most things need its code: sign in again with --code.");
      }
      return { email, aal: data?.currentLevel ?? "aal1" };
    },
    signOut: async () => {
      await client.auth.signOut({ scope: "local" });
      rmSync(sessionFile, { force: true });
    },
    caller: async () => {
      const { data, error } = await client.auth.getSession();
      if (data.session) return { ...project, accessToken: data.session.access_token };
      throw new SignInRefusal(
        error
          ? `The session has ended: ${error.message}. Sign in again.`
          : "No account is signed in: use sign-in <email>.",
      );
    },
  };
}

/**
 * Raises the session to aal2 with a code from the account's authenticator. Tries each authenticator if there are
 * several.
 */
async function prove({ auth }: SupabaseClient, code: string): Promise<void> {
  const { data, error } = await auth.mfa.listFactors();
  if (error) throw new SignInRefusal(`The authenticators could not be asked for: ${error.message}.`);
  if (data.totp.length === 0) return;
  let refusal = "";
  for (const { id } of data.totp) {
    const { error: refused } = await auth.mfa.challengeAndVerify({ factorId: id, code });
    if (!refused) return;
    refusal = refused.message;
  }
  throw new SignInRefusal(`The code was refused: ${refusal}. You are signed in without the second step.`);
}

function codeFromEnvironment(): string | null {
  const secret = process.env.MOBILE_TOTP_SECRET;
  return secret ? new TOTP({ secret: Secret.fromBase32(secret) }).generate() : null;
}

async function readPassword(): Promise<string> {
  const { MOBILE_PASSWORD } = process.env;
  if (MOBILE_PASSWORD) return MOBILE_PASSWORD;
  if (process.stdin.isTTY) process.stderr.write("Password (it shows; end with Ctrl-D): ");
  return (await text(process.stdin)).replace(/\r?\n$/, "");
}

/** Returns supabase-js's session storage: a file with mode 0600, written atomically. */
function storageIn(file: string) {
  return {
    getItem: (key: string): string | null => {
      try {
        const kept: unknown = JSON.parse(readFileSync(file, "utf8"));
        const value = kept && typeof kept === "object" ? (kept as Record<string, unknown>)[key] : null;
        return typeof value === "string" ? value : null;
      } catch {
        return null;
      }
    },
    setItem: (key: string, value: string): void => {
      mkdirSync(path.dirname(file), { recursive: true });
      const draft = `${file}.${process.pid}`;
      writeFileSync(draft, JSON.stringify({ [key]: value }), { mode: 0o600 });
      chmodSync(draft, 0o600);
      renameSync(draft, file);
    },
    removeItem: (): void => rmSync(file, { force: true }),
  };
}
