import { randomInt } from "node:crypto";
import { newEmail } from "./accounts.ts";
import { call, expectOk } from "./http.ts";
import type { Person } from "./oauth-provider.ts";
import { target as server } from "./target.ts";

export const site = "http://localhost:3000";
export const app = "https://app.example.test/after";
export const newSubject = () => String(randomInt(1, 2 ** 31));
export const newPerson = (fields: Partial<Person> = {}): Person => ({
  sub: newSubject(),
  email: newEmail(),
  ...fields,
});

/** Returns the code with which a provider redirects the browser back after this person has consented. */
export async function admit(person: Person, provider = "keycloak"): Promise<string> {
  const response = await fetch(`${server.providerUrl}/people?provider=${provider}`, {
    method: "POST",
    body: JSON.stringify(person),
  });
  return ((await response.json()) as { code: string }).code;
}

/** Acts as the browser in a provider sign-in, at a server that trusts the provider. */
export function oauthFlow(serverUrl: () => string = () => server.url) {
  const get = (path: string, options: Record<string, unknown> = {}) =>
    call(`GET ${path}`, { url: serverUrl(), ...options });

  /** Starts at /authorize. @returns the redirect target and the state */
  async function begin(query: Record<string, string> = {}) {
    const answer = await get(`/authorize?${new URLSearchParams({ provider: "keycloak", ...query })}`);
    const target = new URL(answer.location);
    return { answer, target, state: target.searchParams.get("state") ?? "" };
  }

  /** Completes the flow at /callback. @returns the redirect target, its query and its fragment */
  async function finish(state: string, query: Record<string, string>) {
    const answer = await get(`/callback?${new URLSearchParams({ state, ...query })}`);
    const target = new URL(answer.location);
    const fragment = Object.fromEntries(new URLSearchParams(target.hash.slice(1)));
    return { answer, target, fragment, query: Object.fromEntries(target.searchParams) };
  }

  /** Completes an implicit flow. */
  async function signInAs(person: Person, query: Record<string, string> = {}) {
    const { state } = await begin({ redirect_to: app, ...query });
    return finish(state, { code: await admit(person, query.provider) });
  }

  const userOf = async (fragment: Record<string, string>) =>
    expectOk(await get("/user", { bearer: fragment.access_token ?? "" }));

  return { get, begin, finish, signInAs, userOf };
}
