import path from "node:path";
import { visitProvider } from "../../../remix-app/testing/provider-visit.ts";
import { loadSecrets, oidcClientSecret } from "../../../scripts/start/secrets.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import type { DirectCall } from "./journey.ts";
import { beginOAuth, call, newAddress, newChallenge, provider, raised, signedIn, visit } from "./phone.ts";

const { oidc, supabase } = readStack();
const clientId = "gatehouse";
const redirectUri = `${supabase.url}/auth/v1/callback`;
const idTokenRoute = "POST /token?grant_type=id_token";
const endpoint = (name: string) => `${oidc}/protocol/openid-connect/${name}`;

/**
 * Returns an ID token that the demo provider issues to the identity backend's client, as an app on a phone receives it.
 */
async function idTokenFor(email: string): Promise<string> {
  const query = { client_id: clientId, redirect_uri: redirectUri, response_type: "code", scope: "openid email" };
  const address = `${endpoint("auth")}?${new URLSearchParams({ ...query, state: "none" })}`;
  const back = new URL(await visitProvider(address, { ourOrigin: new URL(supabase.url).origin, email }));
  const secrets = await loadSecrets(path.dirname(process.env.GATEHOUSE_STACK ?? ""), { clusterExists: true });
  const credentials = Buffer.from(`${clientId}:${oidcClientSecret(secrets)}`).toString("base64");
  const response = await fetch(endpoint("token"), {
    method: "POST",
    headers: { authorization: `Basic ${credentials}` },
    body: new URLSearchParams({
      grant_type: "authorization_code",
      code: back.searchParams.get("code") ?? "",
      redirect_uri: redirectUri,
    }),
  });
  const { id_token: idToken } = (await response.json()) as { id_token?: string };
  if (!idToken) throw new Error(`the provider issued no ID token: ${response.status}`);
  return idToken;
}

/** Calls in which a mobile app sends a provider's ID token. */
export const idTokenCalls: DirectCall[] = [
  {
    route: idTokenRoute,
    title: "a provider's account that is linked already",
    events: ["sign_in"],
    notImplemented: true,
    async prepare() {
      const { person } = await signedIn();
      await visit(await beginOAuth(newChallenge().challenge), { email: person.email });
      const body = { provider, id_token: await idTokenFor(person.email) };
      return { person, act: () => call(idTokenRoute, { body }) };
    },
  },
  {
    route: idTokenRoute,
    title: "a direct link",
    events: ["identity_linked", "sign_in"],
    mails: { identity_linked: 1 },
    unconfirmed: ["identity"],
    notImplemented: true,
    async prepare() {
      const { person, session } = await signedIn();
      const body = { provider, id_token: await idTokenFor(newAddress()), link_identity: true };
      return { person, act: () => call(idTokenRoute, { bearer: session.accessToken, body }) };
    },
  },
  {
    route: idTokenRoute,
    title: "a direct link to an account with an authenticator",
    refused: true,
    notImplemented: true,
    async prepare() {
      const { person, session } = await raised();
      const body = { provider, id_token: await idTokenFor(newAddress()), link_identity: true };
      return { person, act: () => call(idTokenRoute, { bearer: session.accessToken, body }) };
    },
  },
];
