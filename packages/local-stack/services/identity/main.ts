import { serve } from "@hono/node-server";
import { createApp } from "./app.ts";
import { readConfig } from "./config/config.ts";
import type { Deps } from "./core/deps.ts";
import { openMailer } from "./core/mailer.ts";
import { openDiscovery } from "./core/oauth/discovery.ts";
import { systemRandom } from "./core/random.ts";
import { rateWindow } from "./core/rate-window.ts";
import { loadTokenKeys } from "./core/token-keys.ts";
import { openDatabase } from "./db.ts";
import { applySchema } from "./schema.ts";

const stopTimeoutMs = 5_000;
const log = (line: string) => console.error(line);

try {
  await start();
} catch (error) {
  log(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}

async function start(): Promise<void> {
  const config = readConfig(process.env);
  const keys = await loadTokenKeys(config);
  const clock = () => new Date();
  const db = openDatabase(config.DATABASE_URL, (error) => log(`database connection lost: ${error.message}`));
  try {
    await applySchema(db);
  } catch (error) {
    await db.end();
    throw error;
  }
  const mailer = openMailer(config, { log, clock });
  const mailLimit = rateWindow(config.GOTRUE_RATE_LIMIT_EMAIL_SENT, clock);
  const discover = openDiscovery(clock);
  const deps: Deps = { config, db, keys, mailer, mailLimit, discover, clock, random: systemRandom, log };

  const { GOTRUE_API_HOST: hostname, PORT: port } = config;
  const server = serve({ fetch: createApp(deps).fetch, hostname, port }, () => {
    log(`identity server listens on http://${hostname}:${port}`);
  });
  server.on("error", (error) => {
    log(`identity server cannot listen on ${hostname}:${port}: ${error.message}`);
    process.exit(1);
  });
  const stop = () => {
    setTimeout(() => process.exit(1), stopTimeoutMs).unref();
    server.close(() => {
      mailer.close();
      void db.end();
    });
    if ("closeIdleConnections" in server) server.closeIdleConnections();
  };
  process.once("SIGTERM", stop);
  process.once("SIGINT", stop);
}
