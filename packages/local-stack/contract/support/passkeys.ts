import { newSession } from "./accounts.ts";
import { Authenticator, type Quirks } from "./authenticator.ts";
import { call, expectOk } from "./http.ts";

export const creationOptions = async (bearer: string) =>
  expectOk(await call("POST /passkeys/registration/options", { bearer, body: {} }));
export const requestOptions = async () => expectOk(await call("POST /passkeys/authentication/options", { body: {} }));
export const finishRegistration = (bearer: string, body: Record<string, unknown>) =>
  call("POST /passkeys/registration/verify", { bearer, body });
export const finishSignIn = (body: Record<string, unknown>) => call("POST /passkeys/authentication/verify", { body });

export async function register(bearer: string, authenticator = new Authenticator(), quirks: Quirks = {}) {
  const { challenge_id, options } = await creationOptions(bearer);
  const credential = authenticator.create(options, quirks);
  const passkey = expectOk(await finishRegistration(bearer, { challenge_id, credential }));
  return { authenticator, passkey, credential };
}

export async function newPasskey(quirks: Quirks = {}) {
  const session = await newSession();
  return { ...session, ...(await register(session.accessToken, new Authenticator(), quirks)) };
}

export async function signInWith(authenticator: Authenticator, quirks: Quirks = {}) {
  const { challenge_id, options } = await requestOptions();
  return finishSignIn({ challenge_id, credential: authenticator.get(options, quirks) });
}
