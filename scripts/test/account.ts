import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { deletePerson, insertAccount, query } from "./people.ts";
import { readStack } from "./stack.ts";

const { supabase } = readStack();
const password = "correct horse battery";

/** An account on the running stack that a test creates and removes. */
export interface Account {
  id: string;
  email: string;
  password: string;
  /** Signs in at the identity backend. @returns the access token */
  signIn(): Promise<string>;
  /** Signs in like {@link signIn}, but with an authentication time `seconds` in the past. */
  signInAged(seconds: number): Promise<string>;
  remove(): Promise<void>;
}

/** Creates a client of the stack's project with our server's own key. */
export function createTestService(): SupabaseClient {
  return createClient(supabase.url, supabase.secretKey, { auth: { persistSession: false, autoRefreshToken: false } });
}

/** Creates an account with a confirmed email. */
export async function createAccount(): Promise<Account> {
  const email = `${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
  const id = await insertAccount({ email, password });
  const visitor = () =>
    createClient(supabase.url, supabase.publishableKey, { auth: { persistSession: false, autoRefreshToken: false } });
  async function signIn() {
    const client = visitor();
    const signedIn = await client.auth.signInWithPassword({ email, password });
    if (signedIn.error) throw signedIn.error;
    return { client, session: signedIn.data.session };
  }
  return {
    id,
    email,
    password,
    signIn: async () => (await signIn()).session.access_token,
    async signInAged(seconds) {
      const { client, session } = await signIn();
      await query(
        `update auth.mfa_amr_claims set updated_at = now() - make_interval(secs => $2)
         where session_id = ($1::jsonb ->> 'session_id')::uuid`,
        [payloadOf(session.access_token), seconds],
      );
      const refreshed = await client.auth.refreshSession();
      if (refreshed.error || !refreshed.data.session) throw refreshed.error;
      return refreshed.data.session.access_token;
    },
    remove: () => deletePerson({ id }),
  };
}

function payloadOf(token: string): string {
  return Buffer.from(token.split(".")[1] ?? "", "base64url").toString();
}
