import path from "node:path";
import { visitProvider } from "../../../remix-app/testing/provider-visit.ts";
import { loadSecrets, oidcClientSecret } from "../../local-stack/secrets.ts";
import { readStack } from "../stack.ts";

const { oidc, supabase } = readStack();
const clientId = "gatehouse";
const redirectUri = `${supabase.url}/auth/v1/callback`;
const endpoint = (name: string) => `${oidc}/protocol/openid-connect/${name}`;

/** An ID token that the demo provider issues to the identity backend's client, as an app on a phone gets one. */
export async function idTokenFor(email: string): Promise<string> {
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
