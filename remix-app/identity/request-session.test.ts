import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createClaimsVerifier } from "#shared/claims.ts";
import { readDeviceCookie } from "../accounts/device-cookie.ts";
import { tagOf } from "../accounts/seal.ts";
import { openVault, type Vault } from "../accounts/vault.ts";
import { type Env, parseEnv } from "../env.server.ts";
import { createCookieJar } from "../http/cookies.ts";
import { type IdentityBackend, startIdentityBackend } from "../testing/identity-backend.ts";
import { testSecret } from "../testing/vault-backend.ts";
import { createEdgeProxy } from "./edge-proxy.ts";
import { createSessionRefresher } from "./refresh.ts";
import { openRequestSession, type SessionServices } from "./request-session.ts";
import { sessionCookieScope } from "./session-cookie.ts";
import { fetchDeviceSessionState } from "./session-state.ts";

const origin = "http://localhost";

let backend: IdentityBackend;
let env: Env;
let vault: Vault;
let services: SessionServices;

beforeEach(async () => {
  backend = await startIdentityBackend();
  const supabaseUrl = backend.url;
  const publishableKey = "sb_publishable_test";
  env = parseEnv({
    NODE_ENV: "test",
    BASE_URL: origin,
    SUPABASE_URL: supabaseUrl,
    SUPABASE_PUBLISHABLE_KEY: publishableKey,
    SUPABASE_SECRET_KEY: testSecret,
  });
  vault = await openVault(env);
  const refreshSession = createSessionRefresher({ supabaseUrl });
  const proxy = createEdgeProxy({
    verifyClaims: createClaimsVerifier({ supabaseUrl }),
    refreshSession,
    vault,
    fetchState: (token, device) => fetchDeviceSessionState(token, { supabaseUrl, publishableKey, device }),
  });
  services = { proxy, refreshSession, vault };
});
afterEach(() => backend.close());

describe("a second factor that was proved is in the vault", () => {
  /** Another tab renews the session while the code is looked at. */
  async function renewElsewhere(cookie: string): Promise<void> {
    const device = readDeviceCookie(createCookieJar(cookie), { origin, cookie: vault.keys.cookie });
    const opened = device && (await vault.open(device));
    if (!device || !opened?.vault) throw new Error("nobody is active");
    const session = { ...(await backend.session()), refresh_token: "of another tab" };
    expect(await vault.keep({ device, entry: opened.vault, session })).toEqual({ kept: true });
  }

  test.each([
    ["where nothing is in the way", async () => {}],
    [
      "where it does not answer once",
      async () => {
        backend.vault.misses = 1;
      },
    ],
    ["where another tab has renewed the session", renewElsewhere],
    [
      "where both happen",
      async (cookie: string) => {
        await renewElsewhere(cookie);
        backend.vault.misses = 1;
      },
    ],
  ])("%s", async (_, meanwhile) => {
    const supabaseUrl = backend.url;
    const scope = sessionCookieScope({ supabaseUrl, parentDomain: undefined, origin });
    const cookie = await backend.vault.cookieOf(await backend.session(), { scope });
    const jar = createCookieJar(cookie);
    const session = await openRequestSession({
      env,
      services,
      jar,
      origin,
      authorization: null,
      clientAddress: "203.0.113.7",
    });
    const proved = { ...(await backend.session({ codeSecondsAgo: 0 })), refresh_token: "of the second factor" };
    session.store(proved);
    await meanwhile(cookie);
    await session.settle();
    const device = readDeviceCookie(jar, { origin, cookie: vault.keys.cookie });
    expect(device && (await vault.open(device))?.vault?.tag).toBe(tagOf(proved, vault.keys));
  });
});
