import { createHash, randomBytes } from "node:crypto";
import { Authenticator } from "@gatehousehq/local-stack/contract/support/authenticator";
import { type AuthenticatorApp, codeOf } from "../../../remix-app/testing/authenticator-app.ts";
import { type ProviderAnswer, visitProvider } from "../../../remix-app/testing/provider-visit.ts";
import { createPerson, type Person, query } from "../../../scripts/test/people.ts";
import { readStack } from "../../../scripts/test/stack.ts";

const { base, supabase } = readStack();
const api = `${supabase.url}/auth/v1`;

export const provider = "keycloak";
export const phoneAgent = "ExamplePhone/1.4 (iOS 19.1)";
const landing = `${base}/landing`;

// biome-ignore lint/suspicious/noExplicitAny: bodies are the server under test's
export type Answer = { status: number; body: any; location: string };

interface CallOptions {
  apikey?: string;
  bearer?: string;
  body?: unknown;
  userAgent?: string;
  form?: Record<string, string>;
}

/** Sends one request to the identity backend with the publishable key, as a phone does. Follows no redirects. */
export async function call(route: string, options: CallOptions = {}): Promise<Answer> {
  const [method = "GET", path = ""] = route.split(" ");
  const { apikey = supabase.publishableKey, bearer, body, form, userAgent = phoneAgent } = options;
  const response = await fetch(`${api}${path}`, {
    method,
    redirect: "manual",
    headers: {
      apikey,
      "x-supabase-api-version": "2024-01-01",
      "user-agent": userAgent,
      ...(bearer ? { authorization: `Bearer ${bearer}` } : {}),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(form ? { body: new URLSearchParams(form) } : {}),
  });
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.includes("json") && text;
  return {
    status: response.status,
    body: isJson ? JSON.parse(text) : text,
    location: response.headers.get("location") ?? "",
  };
}

/** Sends a request with the secret key. */
export function callAsAdmin(route: string, body?: object): Promise<Answer> {
  return call(route, { apikey: supabase.secretKey, bearer: supabase.secretKey, ...(body ? { body } : {}) });
}

/** Returns the response of a call that must succeed. @throws Error if the call was refused */
export async function done(answer: Answer | Promise<Answer>): Promise<Answer> {
  const { status, body, location } = await answer;
  if (status >= 400 || /[?&#]error=/.test(location)) throw new Error(`${status} ${JSON.stringify(body)} ${location}`);
  return { status, body, location };
}

export interface Session {
  accessToken: string;
  refreshToken: string;
}

export function sessionIn({ body }: Answer): Session {
  return { accessToken: body.access_token, refreshToken: body.refresh_token };
}

export function signIn({ email, password }: Pick<Person, "email" | "password">, userAgent = phoneAgent) {
  return call("POST /token?grant_type=password", { body: { email, password }, userAgent });
}

/** Creates an account, and a phone that is signed in to it. */
export async function signedIn(): Promise<{ person: Person; session: Session }> {
  const person = await createPerson();
  return { person, session: sessionIn(await done(signIn(person))) };
}

/** Returns the token in the last email of a kind to an account. */
export async function mailedToken(userId: string, kind: string): Promise<string> {
  const [mailed] = await query<{ token_hash: string }>(
    "select token_hash from auth.one_time_tokens where user_id = $1 and token_type::text = $2",
    [userId, kind],
  );
  if (!mailed) throw new Error(`no ${kind} of ${userId}`);
  return mailed.token_hash;
}

export function newChallenge() {
  const verifier = randomBytes(42).toString("base64url");
  const codeChallenge = createHash("sha256").update(verifier).digest("base64url");
  return { verifier, challenge: { code_challenge: codeChallenge, code_challenge_method: "s256" } };
}

export interface Factor extends Pick<AuthenticatorApp, "secret"> {
  id: string;
}

export async function enroll(bearer: string): Promise<Factor> {
  const body = { factor_type: "totp", friendly_name: crypto.randomUUID().slice(0, 8) };
  const answer = await done(call("POST /factors", { bearer, body }));
  return { id: answer.body.id, secret: answer.body.totp.secret };
}

export async function challengeOf(bearer: string, { id }: Factor): Promise<string> {
  return (await done(call(`POST /factors/${id}/challenge`, { bearer, body: {} }))).body.id;
}

/** Verifies a factor. `steps` selects a later code, since each code is valid only once. */
export async function prove(bearer: string, factor: Factor, steps = 0): Promise<Answer> {
  const body = { challenge_id: await challengeOf(bearer, factor), code: codeOf(factor, steps) };
  return call(`POST /factors/${factor.id}/verify`, { bearer, body });
}

/** Creates an account with a verified authenticator, and a phone whose session was raised to AAL2 with it. */
export async function raised(): Promise<{ person: Person; session: Session; factor: Factor }> {
  const { person, session } = await signedIn();
  const factor = await enroll(session.accessToken);
  return { person, factor, session: sessionIn(await done(prove(session.accessToken, factor))) };
}

/** Follows a URL of the identity backend through the provider back to our server. @returns the final URL */
export function visit(address: string, answer: ProviderAnswer): Promise<string> {
  return visitProvider(address, { ourOrigin: base, ...answer });
}

const flowQuery = (challenge: object = {}) =>
  new URLSearchParams({ provider, scopes: "openid", redirect_to: landing, skip_http_redirect: "true", ...challenge });

/** Starts a sign-in with the provider. @returns the provider's URL */
export async function beginOAuth(challenge: object = {}): Promise<string> {
  return (await done(call(`GET /authorize?${flowQuery(challenge)}`))).location;
}

export const authorizePath = `/authorize?${flowQuery()}`;
export const linkPath = `/user/identities/authorize?${flowQuery()}`;

/**
 * Follows a URL of the identity backend through the provider.
 * @returns the URL of the backend's callback, without opening it
 */
export async function callbackOf(address: string, answer: ProviderAnswer): Promise<URL> {
  return new URL(await visitProvider(address, { ourOrigin: new URL(api).origin, ...answer }));
}

/** Starts linking a provider account. @returns the provider's URL */
export async function beginLink(bearer: string, challenge: object = {}): Promise<string> {
  return (await done(call(`GET /user/identities/authorize?${flowQuery(challenge)}`, { bearer }))).body.url;
}

/** Converts the browser's final redirect to a response. */
export const landed = (location: string): Answer => ({ status: 302, body: "", location });

export function exchange(location: string, verifier: string): Promise<Answer> {
  const code = new URL(location).searchParams.get("code");
  return call("POST /token?grant_type=pkce", { body: { auth_code: code, code_verifier: verifier } });
}

/** Links a provider account as a phone does, with PKCE. @returns the identity's id */
export async function link(bearer: string): Promise<string> {
  const { challenge } = newChallenge();
  await done(landed(await visit(await beginLink(bearer, challenge), { email: newAddress() })));
  return identityOf(bearer);
}

export async function identityOf(bearer: string, of = provider): Promise<string> {
  const { identities } = (await done(call("GET /user", { bearer }))).body;
  return identities.find((identity: { provider: string }) => identity.provider === of).identity_id;
}

export const newAddress = () => `${crypto.randomUUID().slice(0, 8)}@phone.gatehouse.test`;

const relyingParty = { origin: base, rpId: new URL(base).hostname };

/** Starts and signs a passkey registration. @returns the body that completes it */
export async function beginPasskey(bearer: string, authenticator = new Authenticator()) {
  const { body } = await done(call("POST /passkeys/registration/options", { bearer, body: {} }));
  return { challenge_id: body.challenge_id, credential: authenticator.create(body.options, relyingParty) };
}

/** Creates an account with a passkey that the phone added. */
export async function withPasskey() {
  const authenticator = new Authenticator();
  const { person, session } = await signedIn();
  const body = await beginPasskey(session.accessToken, authenticator);
  const passkey = (await done(call("POST /passkeys/registration/verify", { bearer: session.accessToken, body }))).body;
  return { person, session, authenticator, passkeyId: passkey.id as string };
}

export async function answerPasskey(authenticator: Authenticator) {
  const { body } = await done(call("POST /passkeys/authentication/options", { body: {} }));
  const credential = authenticator.get(body.options, { ...relyingParty, counter: 1 });
  return { challenge_id: body.challenge_id, credential };
}
