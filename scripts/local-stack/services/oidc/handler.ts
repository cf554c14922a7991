import type { RequestListener } from "node:http";
import { createOidcProvider, type OidcClient } from "./provider.ts";
import { demoProvider, standInIssuer, standInNames, standIns } from "./stand-ins.ts";

type Options = {
  /** The origin that browsers and the identity backend reach the server at; the demo provider's issuer. */
  origin: string;
  client: OidcClient;
  log: (line: string) => void;
};

/** The demo provider at the root, and each stand-in below its name. */
export async function createOidcHandler({ origin, client, log }: Options): Promise<RequestListener> {
  const create = async (issuer: string, shape: Parameters<typeof createOidcProvider>[0]["shape"]) => {
    const provider = await createOidcProvider({ issuer, client, shape });
    provider.on("server_error", (_ctx, error: Error) => log(`${issuer}: ${error.stack ?? error.message}`));
    return provider.callback();
  };
  const root = await create(origin, demoProvider);
  const mounted = new Map<string, typeof root>();
  for (const name of standInNames) mounted.set(name, await create(standInIssuer(origin, name), standIns[name]));
  return (request, response) => {
    const [, name = "", rest = ""] = /^\/([a-z]+)(\/.*)$/.exec(request.url ?? "") ?? [];
    const standIn = mounted.get(name);
    if (standIn) request.url = rest;
    void (standIn ?? root)(request, response);
  };
}
