import type { Introspection } from "./platform-client.ts";

const maxEntries = 10_000;

/** Caches recent introspections by token. */
export interface IntrospectionCache<Answer extends Introspection = Introspection> {
  read(token: string): Promise<Answer>;
  /** Forgets a token, for example on sign-out. */
  drop(token: string): void;
  /** Forgets the sessions of a login, or of a person. */
  dropLogin(login: { sid?: string | undefined; sub?: string | undefined }): void;
}

interface Entry<Answer> {
  result: Promise<Answer>;
  /** Undefined while the call to the platform is pending. */
  known?: Answer;
  expiresAt: number;
}

/** Caches active sessions for `seconds`. Concurrent requests share one call; failures and ended sessions are not kept. */
export function createIntrospectionCache<Answer extends Introspection>(
  platform: { introspect(token: string): Promise<Answer> },
  { seconds, now = Date.now }: { seconds: number; now?: () => number },
): IntrospectionCache<Answer> {
  const entries = new Map<string, Entry<Answer>>();

  async function ask(token: string, entry: Entry<Answer>): Promise<Answer> {
    const forget = () => {
      if (entries.get(token) === entry) entries.delete(token);
    };
    try {
      const known = await platform.introspect(token);
      entry.known = known;
      if (!known.active) forget();
      return known;
    } catch (error) {
      forget();
      throw error;
    }
  }

  return {
    read(token) {
      if (seconds === 0) return platform.introspect(token);
      const time = now();
      const held = entries.get(token);
      if (held && time < held.expiresAt && !(held.known?.active && held.known.exp * 1000 <= time)) return held.result;
      const entry = { expiresAt: time + seconds * 1000 } as Entry<Answer>;
      entry.result = ask(token, entry);
      entries.delete(token);
      entries.set(token, entry);
      for (const [oldest] of entries) {
        if (entries.size <= maxEntries) break;
        entries.delete(oldest);
      }
      return entry.result;
    },
    drop: (token) => void entries.delete(token),
    dropLogin({ sid, sub }) {
      for (const [token, { known }] of entries) {
        // Also drops pending answers, because the platform may have given them before the logout. Compares `sub` if the
        // logout or the session has no `sid`.
        const isOfLogin = !known?.active || (sid && known.sid ? known.sid === sid : !sub || known.sub === sub);
        if (isOfLogin) entries.delete(token);
      }
    },
  };
}
