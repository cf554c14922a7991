import { hash } from "@node-rs/bcrypt";
import { createClient } from "@supabase/supabase-js";
import { Secret } from "otpauth";
import pg from "pg";
import type { StoredSession } from "../../remix-app/session/cookies.ts";
import type { AuthenticatorApp } from "../../remix-app/testing/authenticator-app.ts";
import { type Browser, openBrowser } from "../../remix-app/testing/browser.ts";
import { newAddress } from "../../remix-app/testing/visitor.ts";
import { cookieOf, keepSession } from "./keep-session.ts";
import { readStack } from "./stack.ts";

const { base, supabase } = readStack();
// Connections are pooled, since connecting and running the first statements takes as long as dozens of later
// statements. It is not an error if the stack closes an idle connection.
const database = new pg.Pool({
  connectionString: supabase.dbUrl,
  max: 8,
  idleTimeoutMillis: 60_000,
  allowExitOnIdle: true,
});
database.on("error", () => {});
const leastHashCost = 4;
const withoutStorage = { auth: { persistSession: false, autoRefreshToken: false } };

/** A confirmed account on the stack under test. */
export interface Person {
  id: string;
  email: string;
  password: string;
}

/** A browser that can read its session from our server. */
export interface SignedInBrowser extends Browser {
  /** The URL to which the sign-in page redirected; null if the page was not used. */
  location: string | null;
  session(): Promise<{
    user: { id: string };
    sessionId: string;
    aal: string;
    mfa: { required: boolean; satisfied: boolean };
  }>;
}

/** Creates a confirmed account without authenticators. */
export async function createPerson(): Promise<Person> {
  const id = crypto.randomUUID();
  const person = { email: `${id.slice(0, 8)}@integration.gatehouse.test`, password: `correct horse ${id.slice(-12)}` };
  return { ...person, id: await insertAccount(person) };
}

/**
 * Inserts a confirmed account as the identity backend's admin API would. Calling that API takes ten times as long, and
 * the contract tests cover it.
 * @returns its id
 */
export async function insertAccount({ email, password }: Pick<Person, "email" | "password">): Promise<string> {
  const id = crypto.randomUUID();
  await query(
    `with account as (
       insert into auth.users (
         instance_id, id, aud, role, email, encrypted_password, email_confirmed_at, confirmation_token, recovery_token,
         email_change_token_new, email_change, raw_app_meta_data, raw_user_meta_data, created_at, updated_at
       )
       values (
         '00000000-0000-0000-0000-000000000000', $1, 'authenticated', 'authenticated', $2, $3, now(), '', '',
         '', '', '{"provider": "email", "providers": ["email"]}', '{"email_verified": true}', now(), now()
       )
       returning id, email
     )
     insert into auth.identities (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
     select id, id, jsonb_build_object('sub', id, 'email', email, 'email_verified', false, 'phone_verified', false),
       'email', now(), now(), now()
     from account`,
    [id, email, await hash(password, { cost: leastHashCost, version: "2a" })],
  );
  return id;
}

/** Backdates the emails to an account, so that our pages and the backend can send another email of each kind. */
export async function passMailPause(email: string): Promise<void> {
  await query(
    `update auth.users
     set confirmation_sent_at = confirmation_sent_at - private.mail_pause(),
       recovery_sent_at = recovery_sent_at - private.mail_pause(),
       email_change_sent_at = email_change_sent_at - private.mail_pause()
     where email = $1`,
    [email],
  );
  await endMailTurns(email);
}

/** Ages an account's requests for emails so that none counts as pending. The emails themselves keep their age. */
export async function endMailTurns(email: string): Promise<void> {
  await query(
    `delete from private.rate_limits r
     using private.attempt_limits() l,
       (select 'email:' || $1 union all select 'user:' || u.id from auth.users u where u.email = $1) as a (account),
       private.attempt_buckets(l.action, a.account, null) b
     where l.when_empty = 'wait' and r.subject = b.subject`,
    [email],
  );
}

/** Adds verified authenticators to an account, without going through enrollment. */
export async function insertAuthenticators(
  { id }: Pick<Person, "id">,
  names: readonly string[],
): Promise<AuthenticatorApp[]> {
  const apps = names.map((name) => ({ factorId: crypto.randomUUID(), name, secret: new Secret({ size: 20 }).base32 }));
  await query(
    `insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, secret, created_at, updated_at)
     select app.id, $1, app.name, 'totp', 'verified', app.secret, now(), now()
     from unnest($2::uuid[], $3::text[], $4::text[]) as app (id, name, secret)`,
    [id, apps.map(({ factorId }) => factorId), names, apps.map(({ secret }) => secret)],
  );
  return apps;
}

export async function deletePerson({ id }: Pick<Person, "id">): Promise<void> {
  await query("delete from auth.users where id = $1", [id]);
}

/** Opens a signed-in browser, for tests that begin after the sign-in. */
export async function enter(person: Pick<Person, "email" | "password">): Promise<SignedInBrowser> {
  return signedIn(openBrowser(base, { cookie: await cookieOf(person), retries: true }), null);
}

/** Signs in through the sign-in page, by default from an address that no one else uses. Slower than {@link enter}. */
export async function signIn(
  { email, password }: Person,
  { returnUrl = "", address = newAddress() } = {},
): Promise<SignedInBrowser> {
  const browser = openBrowser(base, { address, retries: true });
  const { location } = await browser.post("/login", { email, password, returnUrl });
  return signedIn(browser, location);
}

/**
 * Opens a browser whose session was verified long ago.
 * @param options.secondsAgo the age of each verification
 * @param options.prove a factor's code, which raises the session to AAL2
 */
export async function signedInLongAgo(
  { email, password }: Pick<Person, "email" | "password">,
  { secondsAgo, prove }: { secondsAgo: number; prove?: { factorId: string; code: string } },
): Promise<SignedInBrowser> {
  const { auth } = createClient(supabase.url, supabase.publishableKey, withoutStorage);
  const { data, error } = await auth.signInWithPassword({ email, password });
  if (error) throw error;
  if (prove) {
    const { error: refused } = await auth.mfa.challengeAndVerify(prove);
    if (refused) throw refused;
  }
  await query(
    `update auth.mfa_amr_claims set updated_at = updated_at - make_interval(secs => $2)
     where session_id in (select id from auth.sessions where user_id = $1)`,
    [data.user.id, secondsAgo],
  );
  const { data: refreshed, error: unrefreshed } = await auth.refreshSession();
  if (unrefreshed || !refreshed.session) throw unrefreshed ?? new Error("no session");
  const { access_token, refresh_token, expires_in, expires_at = 0 } = refreshed.session;
  const stored: StoredSession = { access_token, refresh_token, expires_in, expires_at, token_type: "bearer" };
  return signedIn(openBrowser(base, { cookie: await keepSession(stored), retries: true }), null);
}

/** Returns the access token in a browser's cookies. */
export function tokenOf(browser: Pick<SignedInBrowser, "cookie">): string {
  const value = browser
    .cookie()
    .split("; ")
    .filter((pair) => /^sb-[^=]*auth-token/.test(pair))
    .sort()
    .map((pair) => pair.slice(pair.indexOf("=") + 1))
    .join("");
  return JSON.parse(Buffer.from(value.replace(/^base64-/, ""), "base64url").toString()).access_token;
}

/** Gives an account a policy that requires a second factor, in the format that the platform writes. */
export async function requireMfa(person: Pick<Person, "id">): Promise<void> {
  const policy = { version: 1, required: true, boundary: 1, primaryBoundary: null, recovery: "none", generation: 1 };
  await writeMfaPolicy(person, policy);
}

/** Gives an account an invalid policy. */
export async function breakMfaPolicy(person: Pick<Person, "id">): Promise<void> {
  await writeMfaPolicy(person, "not a policy");
}

async function writeMfaPolicy({ id }: Pick<Person, "id">, policy: unknown): Promise<void> {
  await query(
    `with writer as (select set_config('gatehouse.required_mfa_writer', 'on', true))
     update auth.users
     set raw_app_meta_data = coalesce(raw_app_meta_data, '{}') || jsonb_build_object('platform_required_mfa', $2::jsonb)
     from writer where id = $1`,
    [id, JSON.stringify(policy)],
  );
}

/** Runs one statement on the stack's database, in a separate transaction. */
export async function query<Row extends pg.QueryResultRow>(sql: string, values: unknown[]): Promise<Row[]> {
  return (await database.query<Row>(sql, values)).rows;
}

function signedIn(browser: Browser, location: string | null): SignedInBrowser {
  return { ...browser, location, session: async () => JSON.parse((await browser.get("/api/v1/auth/session")).text) };
}
