import { readdirSync } from "node:fs";
import path from "node:path";
import { serveStatic } from "@hono/node-server/serve-static";
import { Hono } from "hono";
import { compress } from "hono/compress";

const yearSeconds = 365 * 24 * 60 * 60;

/**
 * The built client's files. Those below /assets/ have their content's hash in their name and never change; the few
 * others are looked at again after an hour.
 * @param clientDir the directory of the client build
 */
export function staticFiles(clientDir: string): Hono {
  const root = path.relative(process.cwd(), clientDir);
  const app = new Hono();
  app.get(
    "/assets/*",
    compress(),
    serveStatic({ root, onFound: (_, c) => c.header("Cache-Control", `public, max-age=${yearSeconds}, immutable`) }),
    (c) => c.text("Not found", 404),
  );
  for (const entry of readdirSync(clientDir, { withFileTypes: true })) {
    if (!entry.isFile()) continue;
    app.get(
      `/${entry.name}`,
      serveStatic({ root, onFound: (_, c) => c.header("Cache-Control", "public, max-age=3600") }),
    );
  }
  return app;
}
