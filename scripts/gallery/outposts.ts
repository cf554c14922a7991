import { createTurnstile } from "@gatehousehq/local-stack/services/turnstile/app";
import { createAdaptorServer } from "@hono/node-server";
import { freePort, startWeb, type WebProcess } from "../../remix-app/testing/web-process.ts";
import { startIdentityBackend } from "../test/identity-backend.ts";
import { vaultSettings } from "../test/keep-session.ts";
import { readStack } from "../test/stack.ts";

const siteKey = "gallery";

/**
 * Starts our servers in configurations other than the stack's, each on first use: with bot challenges, with another
 * brand, with an unreachable identity backend, and with a database row that our code does not expect.
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
    // This server has the stack's vault key, so it recognizes a signed-in browser, but it cannot reach the identity
    // backend to query the browser's account.
    cutOff: once(async () => baseOf(startWeb(`http://127.0.0.1:${await freePort()}`, { env: vaultSettings() }))),
    /** This server has the stack's keys, so sessions of the stack work here too. */
    branded: once(async () => {
      const env = {
        ...vaultSettings(),
        SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
        SUPABASE_SECRET_KEY: supabase.secretKey,
        BRAND_NAME: "Northwind",
        BRAND_ACCENT: "#7c2d92",
        BRAND_MARK: "scripts/gallery/northwind.svg",
        SUPPORT_ADDRESS: "help@northwind.example",
      };
      return baseOf(startWeb(supabase.url, { env }));
    }),
    /**
     * Starts a server whose backend returns a database row that our code does not expect. Returns the server's address
     * and the Cookie header of a browser that is signed in there.
     */
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
