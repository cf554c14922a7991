import { once } from "node:events";
import { vi } from "vitest";
import { startWeb, type WebProcess } from "./web-process.ts";

/**
 * Faults in a server's outgoing calls. Each value is the end of a path and selects the calls whose path ends with it.
 */
export interface Trouble {
  /** Matching calls fail with a network error. */
  unreachable?: string;
  /** The response to the first matching call is lost. */
  losesAnswer?: string;
  /** The first matching call waits until it is released. */
  holds?: string;
  /** The process is killed after a matching call is answered and before the answer is used. */
  dieAfter?: string;
}

/** A web server whose calls are recorded and can be made to fail. */
export interface WatchedWeb extends WebProcess {
  /** The paths of the server's calls so far. */
  calls(): string[];
  /**
   * Sets the faults of the server's calls, in place of earlier faults. Waits until the server has received the new
   * faults.
   */
  trouble(trouble: Trouble): Promise<void>;
  /** Waits until a call is held. */
  held(): Promise<void>;
  /** Releases the waiting call. */
  release(): void;
}

export async function startWatchedWeb(
  supabase: { url: string; publishableKey: string; secretKey: string },
  env: Record<string, string> = {},
): Promise<WatchedWeb> {
  const web = await startWeb(supabase.url, {
    nodeOptions: ["--import", new URL("./watch-calls.ts", import.meta.url).href],
    env: { SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey, SUPABASE_SECRET_KEY: supabase.secretKey, ...env },
    told: true,
  });
  const calls = () => [...web.output().matchAll(/^call (\S+)$/gm)].map(([, path]) => path ?? "");
  // Waits for the calls that the server makes at startup, because they do not belong to a request.
  await vi.waitUntil(() => calls().includes("/auth/v1/passkeys/authentication/options"), { timeout: 10_000 });
  let troubledAt = 0;
  return {
    ...web,
    calls,
    async trouble(trouble) {
      troubledAt = web.output().length;
      web.child.send(trouble);
      await once(web.child, "message");
    },
    async held() {
      await vi.waitUntil(() => /^held /m.test(web.output().slice(troubledAt)), { timeout: 10_000 });
    },
    release: () => void web.child.kill("SIGUSR2"),
  };
}
