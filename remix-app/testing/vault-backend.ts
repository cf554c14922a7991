import { openAccountKeys } from "../accounts/account-keys.ts";
import { newDevice, writeDeviceCookie } from "../accounts/device-cookie.ts";
import { type Sealed, sealSession } from "../accounts/seal.ts";
import { createCookieJar } from "../http/cookies.ts";
import { type SessionCookieScope, type StoredSession, writeSessionCookie } from "../identity/session-cookie.ts";

/** The server's secret in the tests that talk to a backend of their own. */
export const testSecret = "sb_secret_test";

/** Browsers and the one account that each holds, as the database has them. */
export interface VaultBackend {
  /** While it is, nothing is kept and nothing is found out. */
  down: boolean;
  /** So many calls from now on are not answered. */
  misses: number;
  /** The Cookie header of a browser that signed in with this session. */
  cookieOf(session: StoredSession, options?: { origin?: string; scope?: SessionCookieScope }): Promise<string>;
  answers(path: string): boolean;
  answer(path: string, args: never): unknown;
  stateOf(deviceId: string, options: { alive: boolean }): object | null;
}

interface Entry extends Sealed {
  userId: string;
  sessionId: string;
}

/** Keeps what the server puts into it; nothing is late here, and nobody else writes. */
export function createVaultBackend({ userId, sessionId }: Pick<Entry, "userId" | "sessionId">): VaultBackend {
  const entries = new Map<string, Entry | null>();

  function stateOf(deviceId: string, { alive }: { alive: boolean }) {
    const entry = entries.get(deviceId);
    if (entry === undefined) return null;
    const active = entry && alive ? { userId: entry.userId, sessionId: entry.sessionId, tag: entry.tag } : null;
    return { secret: "current", arrived: true, old: false, active, accounts: [] };
  }

  const calls: Record<string, (args: never) => unknown> = {
    open_account_device: ({ device_id }: { device_id: string }) => {
      const state = stateOf(device_id, { alive: true });
      return state && { ...state, vault: entries.get(device_id) };
    },
    store_account_session: ({ entry }: { entry: Entry & { deviceId: string; expectedTag: string } }) => {
      const current = entries.get(entry.deviceId);
      if (current?.tag !== entry.expectedTag) return { kept: false, current: current ?? null };
      entries.set(entry.deviceId, { ...current, sealed: entry.sealed, keyId: entry.keyId, tag: entry.tag });
      return { kept: true };
    },
    discard_account_session: ({ device_id, expected_tag }: { device_id: string; expected_tag: string }) => {
      const lost = entries.get(device_id)?.tag === expected_tag;
      if (lost) entries.set(device_id, null);
      return lost;
    },
    sign_in_account: ({ sign_in }: { sign_in: Entry & { deviceId: string } }) => {
      entries.set(sign_in.deviceId, { ...sign_in, userId, sessionId });
      return { status: "kept", successor: 1 };
    },
    sign_out_device: ({ device_id }: { device_id: string }) => (entries.delete(device_id) ? [] : null),
  };
  const nameOf = (path: string) => path.slice("/rest/v1/rpc/".length);

  return {
    down: false,
    misses: 0,
    stateOf,
    answers: (path) => path.startsWith("/rest/v1/rpc/") && nameOf(path) in calls,
    answer: (path, args) => calls[nameOf(path)]?.(args),
    async cookieOf(
      session,
      { origin = "http://localhost", scope = { name: "sb-127-auth-token", secure: false } } = {},
    ) {
      const keys = await openAccountKeys({ SUPABASE_SECRET_KEY: testSecret });
      const device = newDevice();
      const sealed = await sealSession(session, { keys, deviceId: device.id, userId });
      entries.set(device.id, { ...sealed, userId, sessionId });
      const jar = createCookieJar(null);
      writeSessionCookie(jar, scope, session);
      writeDeviceCookie(jar, { origin, cookie: keys.cookie, device });
      return jar
        .getAll()
        .map(({ name, value }) => `${name}=${value}`)
        .join("; ");
    },
  };
}
