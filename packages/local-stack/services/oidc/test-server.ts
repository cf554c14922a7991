import { createServer, type RequestListener } from "node:http";
import { createOidcHandler } from "./handler.ts";

export const client = {
  id: "a-client",
  secret: "a secret/with=signs",
  redirectUri: "http://127.0.0.1:9/auth/v1/callback",
};

export type RunningServer = { origin: string; stop: () => Promise<void> };

/** Starts the OpenID server for a test, on a separate port. Stopping it fails if the server logged a failure. */
export async function startOidcServer(): Promise<RunningServer> {
  const failures: string[] = [];
  let handler: RequestListener = (_request, response) => response.end();
  const server = createServer((request, response) => handler(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no address");
  const origin = `http://127.0.0.1:${address.port}`;
  handler = await createOidcHandler({ origin, client, log: (line) => failures.push(line) });
  return {
    origin,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      if (failures.length > 0) throw new Error(failures.join("\n"));
    },
  };
}

/** Returns a simulated browser, which keeps cookies and follows redirects until they leave the origin. */
export function openBrowser(origin: string) {
  const jar = new Map<string, string>();
  return async function open(target: string, form?: Record<string, string>): Promise<Response> {
    const response = await fetch(new URL(target, origin), {
      redirect: "manual",
      headers: { Cookie: [...jar].map(([name, value]) => `${name}=${value}`).join("; ") },
      ...(form ? { method: "POST", body: new URLSearchParams(form) } : {}),
    });
    for (const cookie of response.headers.getSetCookie()) {
      const [pair = ""] = cookie.split(";");
      jar.set(pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1));
    }
    const location = response.headers.get("location");
    if (!location || !new URL(location, origin).href.startsWith(origin)) return response;
    return open(new URL(location, origin).href);
  };
}
