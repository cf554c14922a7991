import { once } from "node:events";
import { vi } from "vitest";
import { startWeb, type WebProcess } from "./web-process.ts";

/** What happens to a server's calls, by how the path of the call ends. */
export interface Trouble {
  /** Each of them meets a network that is gone. */
  unreachable?: string;
  /** The answer to the first of them is lost. */
  losesAnswer?: string;
  /** The first of them waits until it is let go. */
  holds?: string;
  /** The process is killed once it is answered, before anything is done with the answer. */
  dieAfter?: string;
}

/** A web server of which is known what it calls, and that can be troubled. */
export interface WatchedWeb extends WebProcess {
  /** The paths of its calls so far. */
  calls(): string[];
  /** Makes this trouble from now on, in the place of what there was. */
  trouble(trouble: Trouble): Promise<void>;
  /** Waits until a call is held. */
  held(): Promise<void>;
  /** Lets go what is held. */
  release(): void;
}

/** Starts one on a stack. */
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
  // What it looks at once as it starts is no request's.
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
