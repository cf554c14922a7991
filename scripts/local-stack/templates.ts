import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import path from "node:path";
import { host } from "./addresses.ts";

/**
 * Serves the mail templates of `directory` on a free loopback port, since the identity backend takes them by URL.
 * @returns their base URL, and how to stop
 */
export async function serveTemplates(directory: string): Promise<{ url: string; close: () => void }> {
  const server = createServer(async (request, response) => {
    const name = /^\/([a-z_]+\.html)$/.exec(request.url ?? "")?.[1];
    try {
      if (name === undefined) throw new Error("no template's name");
      const text = await readFile(path.join(directory, name), "utf8");
      response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" }).end(text);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, host, resolve);
  });
  const address = server.address();
  if (typeof address !== "object" || address === null) throw new Error("The templates have no address.");
  return {
    url: `http://${host}:${address.port}`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
