import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { decodeIssuedClaims } from "#shared/claims.ts";
import { type IdentityBackend, startIdentityBackend } from "../../scripts/test/identity-backend.ts";
import { type Env, parseEnv } from "../config/env.server.ts";
import { createCookieJar } from "../http/cookies.ts";
import { readDeviceCookie } from "./cookies.ts";
import { openSessionServices } from "./edge-proxy.ts";
import { openRequestSession, type SessionServices } from "./request-session.ts";
import { computeSessionTag } from "./vault.ts";

let backend: IdentityBackend;
let env: Env;
let services: SessionServices;

beforeEach(async () => {
  backend = await startIdentityBackend();
  env = parseEnv(backend.env);
  services = await openSessionServices(env);
});
afterEach(() => backend.close());

describe("storing a proven second factor in the vault", () => {
  /** Refreshes the session in another tab while the code is being verified. */
  async function renewElsewhere(cookie: string): Promise<void> {
    const { vault } = services;
    const device = readDeviceCookie(createCookieJar(cookie), { origin: env.BASE_URL, cookie: vault.keys.cookie });
    const opened = device && (await vault.open(device));
    if (!device || !opened?.vault) throw new Error("no account is active");
    const session = await backend.session({ sessionId: opened.vault.sessionId });
    expect(await vault.keep({ device, entry: opened.vault, session })).toEqual({ kept: true });
  }

  test.each([
    ["if nothing interferes", async () => {}],
    [
      "if the vault fails to answer once",
      async () => {
        backend.vaultMisses = 1;
      },
    ],
    ["if another tab has renewed the session", renewElsewhere],
    [
      "if another tab has renewed the session and the vault fails to answer once",
      async (cookie: string) => {
        await renewElsewhere(cookie);
        backend.vaultMisses = 1;
      },
    ],
  ])("stores a session in the vault after a second factor is proven: %s", async (_, meanwhile) => {
    const signedIn = await backend.session();
    const cookie = await backend.cookieOf(signedIn);
    const jar = createCookieJar(cookie);
    const session = await openRequestSession({
      env,
      services,
      jar,
      origin: env.BASE_URL,
      authorization: null,
      clientAddress: "203.0.113.7",
    });
    const { session_id: sessionId } = decodeIssuedClaims(signedIn.access_token);
    const proved = await backend.session({ sessionId, codeSecondsAgo: 0 });
    session.store(proved);
    await meanwhile(cookie);
    await session.settle();
    const { vault } = services;
    const device = readDeviceCookie(jar, { origin: env.BASE_URL, cookie: vault.keys.cookie });
    expect(device && (await vault.open(device))?.vault?.tag).toBe(computeSessionTag(proved, vault.keys));
  });
});
