import { createAdaptorServer } from "@hono/node-server";
import { freePort, startWeb, type WebProcess } from "../../remix-app/testing/web-process.ts";
import { createTurnstile } from "../local-stack/services/turnstile/app.ts";
import { vaultSettings } from "../test/keep-session.ts";
import { readStack } from "../test/stack.ts";

const siteKey = "gallery";

/**
 * Servers of ours in circumstances that the stack itself is not in, each started by who first asks for it: one that
 * shows bot challenges, and one whose identity backend is gone.
 */
export function openOutposts() {
  const { supabase } = readStack();
  const started: (() => Promise<unknown>)[] = [];
  const once = (start: () => Promise<WebProcess>) => {
    let running: Promise<string> | undefined;
    return () => {
      running ??= start().then((web) => {
        started.push(() => web.stop());
        return web.base;
      });
      return running;
    };
  };
  return {
    challenged: once(async () => {
      const port = await freePort();
      const turnstile = createTurnstile({ siteKey, secret: "gallery", hostnames: ["localhost"] });
      const server = createAdaptorServer({ fetch: turnstile.fetch });
      await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
      started.push(async () => server.close());
      return startWeb(supabase.url, {
        env: {
          SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
          SUPABASE_SECRET_KEY: supabase.secretKey,
          TURNSTILE_SITE_KEY: siteKey,
          TURNSTILE_ORIGIN: `http://127.0.0.1:${port}`,
        },
      });
    }),
    // With the stack's own key: it knows that a browser is signed in, and cannot ask as who.
    cutOff: once(async () => startWeb(`http://127.0.0.1:${await freePort()}`, { env: vaultSettings() })),
    close: () => Promise.all(started.map((stop) => stop())),
  };
}
