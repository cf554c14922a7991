import { expect, test } from "vitest";
import { createApp } from "./app.ts";
import { readConfig } from "./config/config.ts";
import { openMailer } from "./core/mailer.ts";
import { openDiscovery } from "./core/oauth/discovery.ts";
import { systemRandom } from "./core/random.ts";
import { rateWindow } from "./core/rate-window.ts";
import { loadTokenKeys } from "./core/token-keys.ts";
import { openDatabase } from "./db.ts";
import { supabaseAuthRoutes } from "./supabase-auth-routes.ts";

const clock = () => new Date();
const log = () => undefined;
const config = readConfig({
  NODE_ENV: "test",
  DATABASE_URL: "postgres://unused@127.0.0.1:9/none",
  API_EXTERNAL_URL: "http://127.0.0.1:9",
  GOTRUE_SITE_URL: "http://127.0.0.1:9",
  GOTRUE_JWT_SECRET: "a-secret-that-is-long-enough-for-hs256",
});

/** Returns our server's routes: those with their own handlers, and the paths that it answers with 501. */
async function routesOfOurServer() {
  // The pool connects at its first statement, and no statement is run.
  const db = openDatabase(config.DATABASE_URL, log);
  const keys = await loadTokenKeys(config);
  const mailer = openMailer(config, { log, clock });
  const mailLimit = rateWindow({ events: 1, perMs: 1 }, clock);
  const discover = openDiscovery(clock);
  const { routes } = createApp({ config, db, keys, mailer, mailLimit, discover, clock, random: systemRandom, log });
  mailer.close();
  await db.end();
  const named = new Set(routes.map(({ method, path }) => `${method} ${path.replaceAll(/:\w+/g, ":id")}`));
  const middleware = "ALL /*";
  return [...named].filter((route) => route !== middleware);
}

const listed = Object.keys(supabaseAuthRoutes).map((route) => route.replace(/\?.*/, ""));

function isListed(route: string): boolean {
  const [method, path = ""] = route.split(" ");
  if (method !== "ALL") return listed.includes(route);
  const prefix = path.replace(/\*$/, "");
  return listed.some((one) => {
    const [, listedPath = ""] = one.split(" ");
    return path.endsWith("*") ? listedPath.startsWith(prefix) : listedPath === path;
  });
}

test("serves no route that is missing from the list of Supabase Auth's routes", async () => {
  const routes = await routesOfOurServer();
  expect(routes.length).toBeGreaterThan(40);
  expect(routes.filter((route) => !isListed(route))).toEqual([]);
});

test("answers every listed route of Supabase Auth", async () => {
  const routes = await routesOfOurServer();
  const wildcards = routes.filter((route) => route.startsWith("ALL ")).map((route) => route.slice(4));
  const covers = (path: string) => (wildcard: string) =>
    wildcard.endsWith("*") ? path.startsWith(wildcard.slice(0, -1)) : path === wildcard;
  const unanswered = listed.filter(
    (route) => !routes.includes(route) && !wildcards.some(covers(route.split(" ")[1] ?? "")),
  );
  expect(unanswered).toEqual([]);
});
