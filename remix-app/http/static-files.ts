import { readdirSync } from "node:fs";
import path from "node:path";
import { serveStatic } from "@hono/node-server/serve-static";
import { Hono, type MiddlewareHandler } from "hono";
import { compress } from "hono/compress";

const cacheForever = "public, max-age=31536000, immutable";
const cacheOneHour = "public, max-age=3600";

/**
 * Serves the built client's files. Files below /assets/ have their content's hash in their names and never change; the
 * few others are revalidated after an hour.
 * @param clientDir the directory of the client build
 */
export function staticFiles(clientDir: string): Hono {
  const root = path.relative(process.cwd(), clientDir);
  const app = new Hono();
  app.get("/assets/*", setCacheControl(cacheForever), compress(), serveStatic({ root }), (c) =>
    c.text("Not found", 404),
  );
  for (const entry of readdirSync(clientDir, { withFileTypes: true })) {
    if (entry.isFile()) app.get(`/${entry.name}`, setCacheControl(cacheOneHour), serveStatic({ root }));
  }
  return app;
}

function setCacheControl(cacheControl: string): MiddlewareHandler {
  return async (c, next) => {
    await next();
    if (c.res.ok) c.header("Cache-Control", cacheControl);
  };
}
