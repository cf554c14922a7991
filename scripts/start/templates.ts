import { createServer } from "node:http";
import { host } from "@gatehousehq/local-stack/ports";
import type { BackendEmail } from "../operator/email-templates/backend-emails.ts";

/**
 * Serves email templates on a free loopback port, since the identity backend fetches them by URL.
 * @returns the templates' base URL, and a function that stops the server
 */
export async function serveTemplates(emails: readonly BackendEmail[]): Promise<{ url: string; close: () => void }> {
  const pages = new Map(emails.map(({ file, html }) => [`/${file}.html`, html]));
  const server = createServer((request, response) => {
    const html = pages.get(request.url ?? "");
    if (html === undefined) response.writeHead(404).end();
    else response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" }).end(html);
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
