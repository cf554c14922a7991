import { createAdaptorServer } from "@hono/node-server";
import { freePort, startWeb, type WebProcess } from "../../remix-app/testing/web-process.ts";
import { createTurnstile } from "../local-stack/services/turnstile/app.ts";
import { startIdentityBackend } from "../test/identity-backend.ts";
import { vaultSettings } from "../test/keep-session.ts";
import { readStack } from "../test/stack.ts";

const siteKey = "gallery";

/**
 * Servers of ours in circumstances that the stack itself is not in, each started by who first asks for it: one that
 * shows bot challenges, one with another brand, one whose identity backend is gone, and one that reads a row which no code of ours can expect.
 */
export function openOutposts() {
  const { supabase } = readStack();
  const started: (() => Promise<unknown>)[] = [];
  const once = <Outpost>(start: () => Promise<Outpost>) => {
    let running: Promise<Outpost> | undefined;
    return () => {
      running ??= start();
      return running;
    };
  };
  const baseOf = async (starting: Promise<WebProcess>): Promise<string> => {
    const web = await starting;
    started.push(() => web.stop());
    return web.base;
  };
  return {
    challenged: once(async () => {
      const port = await freePort();
      const turnstile = createTurnstile({ siteKey, secret: "gallery", hostnames: ["localhost"] });
      const server = createAdaptorServer({ fetch: turnstile.fetch });
      await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
      started.push(async () => server.close());
      const env = {
        SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
        SUPABASE_SECRET_KEY: supabase.secretKey,
        TURNSTILE_SITE_KEY: siteKey,
        TURNSTILE_ORIGIN: `http://127.0.0.1:${port}`,
      };
      return baseOf(startWeb(supabase.url, { env }));
    }),
    // With the stack's own key: it knows that a browser is signed in, and cannot ask as who.
    cutOff: once(async () => baseOf(startWeb(`http://127.0.0.1:${await freePort()}`, { env: vaultSettings() }))),
    /** With the stack's own keys, so that its sessions work here too. */
    branded: once(async () => {
      const env = {
        ...vaultSettings(),
        SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
        SUPABASE_SECRET_KEY: supabase.secretKey,
        BRAND_NAME: "Northwind",
        BRAND_ACCENT: "#7c2d92",
        BRAND_MARK: "scripts/gallery/northwind.svg",
      };
      return baseOf(startWeb(supabase.url, { env }));
    }),
    /** With the Cookie header of a browser that is signed in there. */
    misled: once(async () => {
      const backend = await startIdentityBackend();
      started.push(() => backend.close());
      backend.rows = [{ id: 7 }];
      const cookie = await backend.cookieOf(await backend.session());
      return { base: await baseOf(backend.startWeb()), cookie };
    }),
    close: () => Promise.all(started.map((stop) => stop())),
  };
}
