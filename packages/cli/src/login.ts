import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { createSignedOutFailure, Failure } from "./failure.ts";
import { callApi, isSafeAddress, postForm, readPlatformUrl } from "./platform.ts";
import { withLock } from "./private-files.ts";
import type { Login, Store } from "./store.ts";

const requestedScopes = "openid profile email offline_access workspaces:read studio:keys";
/** An access token that expires within this time is refreshed before use. */
const refreshBeforeMs = 60_000;

/** Bounds for the platform's polling interval and for the lifetime of a code. */
const [minIntervalSeconds, maxIntervalSeconds, maxLifetimeSeconds] = [1, 60, 3_600];
const safeUrlSchema = z.string().refine(isSafeAddress);
const deviceAuthorizationSchema = z.object({
  device_code: z.string(),
  user_code: z.string(),
  verification_uri: safeUrlSchema,
  verification_uri_complete: safeUrlSchema.optional(),
  expires_in: z.number().transform((seconds) => Math.min(seconds, maxLifetimeSeconds)),
  interval: z
    .number()
    .default(5)
    .transform((seconds) => Math.min(Math.max(seconds, minIntervalSeconds), maxIntervalSeconds)),
});
const tokens = z.object({ access_token: z.string(), refresh_token: z.string(), expires_in: z.number() });
const userinfo = z.object({ sub: z.string(), email: z.string().optional(), name: z.string().nullish() });

type Print = (line: string) => void;

/**
 * Signs in by the device authorization grant (RFC 8628): prints the address and the code, then polls until the person
 * answers in a browser.
 * @throws Failure if they deny it, do not answer in time, or the client is not registered
 */
export async function signIn(
  store: Store,
  { url: typed, clientId, print }: { url: string | undefined; clientId: string; print: Print },
): Promise<Login> {
  const savedLogin = await store.readLogin();
  const address = typed ?? process.env.GATEHOUSE_URL ?? savedLogin?.url;
  if (!address) throw new Failure("usage", "Name the platform: gatehouse login --url https://app.example.com");
  const url = readPlatformUrl(address);
  const authorization = await postForm(`${url}/oauth/device_authorization`, {
    form: { client_id: clientId, scope: requestedScopes },
    schema: deviceAuthorizationSchema,
  });
  if ("error" in authorization) throw refusedClient(authorization.error, { url, clientId });
  const { answer } = authorization;
  print(`Open ${answer.verification_uri_complete ?? answer.verification_uri}`);
  print(`and check that it shows the code ${answer.user_code}.`);
  const login = await pollForTokens({ url, clientId, authorization: answer });
  const person = await callApi(`${url}/oauth/userinfo`, { token: login.accessToken, schema: userinfo });
  const signedIn = { ...login, account: person.email ?? person.name ?? person.sub };
  // Holds the lock. Otherwise, an agent that fails to refresh the earlier login could delete the new login.
  await withLock(store.folder, async () => {
    const previousLogin = await store.readLogin();
    // Without this, the earlier login would stay valid for 30 days.
    if (previousLogin) await revoke(previousLogin).catch(() => {});
    await store.writeLogin(signedIn);
  });
  return signedIn;
}

async function pollForTokens({
  url,
  clientId,
  authorization,
}: {
  url: string;
  clientId: string;
  authorization: z.output<typeof deviceAuthorizationSchema>;
}): Promise<Omit<Login, "account">> {
  const deadline = Date.now() + authorization.expires_in * 1000;
  let intervalMs = authorization.interval * 1000;
  while (Date.now() < deadline) {
    await delay(intervalMs);
    const polled = await requestDeviceTokens(url, { clientId, deviceCode: authorization.device_code });
    if ("answer" in polled) return buildLogin(polled.answer, { url, clientId });
    // RFC 8628 section 3.5: slow down by 5 seconds, also after a connection that timed out.
    if (polled.error === "slow_down" || polled.error === "unreachable") intervalMs += 5000;
    else if (polled.error === "access_denied") throw new Failure("refused", "The sign-in was denied.");
    else if (polled.error !== "authorization_pending") break;
  }
  throw new Failure("refused", "The code expired before it was approved. Run gatehouse login again.");
}

async function requestDeviceTokens(url: string, { clientId, deviceCode }: { clientId: string; deviceCode: string }) {
  const grant = "urn:ietf:params:oauth:grant-type:device_code";
  try {
    return await postForm(`${url}/oauth/token`, {
      form: { grant_type: grant, client_id: clientId, device_code: deviceCode },
      schema: tokens,
    });
  } catch (error) {
    if (error instanceof Failure && error.kind === "unreachable") return { error: "unreachable" };
    throw error;
  }
}

/**
 * Returns a login with a valid access token, refreshed if it is about to expire. Must be called under the store's lock.
 * @throws Failure `signed-out` if the login is missing or has ended
 */
export async function requireLogin(store: Store): Promise<Login> {
  const login = await store.readLogin();
  if (!login) throw createSignedOutFailure();
  if (login.accessExpiresAt - Date.now() > refreshBeforeMs) return login;
  const { url, clientId, refreshToken } = login;
  const refreshed = await postForm(`${url}/oauth/token`, {
    form: { grant_type: "refresh_token", client_id: clientId, refresh_token: refreshToken },
    schema: tokens,
  });
  if ("error" in refreshed) {
    if (refreshed.error !== "invalid_grant") throw refusedClient(refreshed.error, { url, clientId });
    await store.deleteLogin();
    throw createSignedOutFailure("Your sign-in has ended.");
  }
  const renewed = { ...login, ...buildLogin(refreshed.answer, { url, clientId }) };
  await store.writeLogin(renewed);
  return renewed;
}

/**
 * Ends the login at the platform, which also revokes all keys created with it. Deletes the local tokens and keys even
 * if the platform is unavailable.
 * @returns the login, and why the platform was not told, or null
 */
export async function signOut(store: Store): Promise<Login & { fault: string | null }> {
  const login = await store.readLogin();
  if (!login) throw createSignedOutFailure();
  const fault = await revoke(login).then(
    () => null,
    (error: unknown) => {
      if (error instanceof Failure) return error.message;
      throw error;
    },
  );
  await store.deleteLogin();
  return { ...login, fault };
}

async function revoke({ url, clientId, refreshToken }: Login): Promise<void> {
  const form = { client_id: clientId, token: refreshToken, token_type_hint: "refresh_token" };
  const revoked = await postForm(`${url}/oauth/revoke`, { form, schema: z.unknown() });
  if ("error" in revoked) throw refusedClient(revoked.error, { url, clientId });
}

function buildLogin(
  { access_token, refresh_token, expires_in }: z.output<typeof tokens>,
  { url, clientId }: { url: string; clientId: string },
): Omit<Login, "account"> {
  const accessExpiresAt = Date.now() + expires_in * 1000;
  return { url, clientId, accessToken: access_token, accessExpiresAt, refreshToken: refresh_token };
}

function refusedClient(error: string, { url, clientId }: { url: string; clientId: string }): Failure {
  return new Failure(
    "refused",
    `${new URL(url).host} doesn’t let the client “${clientId}” sign in (${error}). An administrator registers it as docs/coding-agents.md shows.`,
  );
}
