import type { RequestListener } from "node:http";
import { createOidcProvider, type OidcClient } from "./provider.ts";
import {
  demoProvider,
  type Shape,
  simulatedProviderBase,
  simulatedProviderNames,
  simulatedProviderPath,
  simulatedProviders,
} from "./simulated-providers.ts";

type Options = {
  /** The origin at which browsers and the identity backend reach the server; also the demo provider's issuer. */
  origin: string;
  client: OidcClient;
  log: (line: string) => void;
};

/** Serves the demo provider at the root, and each simulated provider under its own path. */
export async function createOidcHandler({ origin, client, log }: Options): Promise<RequestListener> {
  const create = async (base: string, shape: Shape) => {
    const provider = await createOidcProvider({ base, client, shape });
    provider.on("server_error", (_ctx, error: Error) => log(`${base}: ${error.stack ?? error.message}`));
    return provider.callback();
  };
  const root = await create(origin, demoProvider);
  const mounted = await Promise.all(
    simulatedProviderNames.map(async (name) => ({
      path: simulatedProviderPath(name),
      issuerPath: `${simulatedProviders[name].issuerPath}/.well-known/`,
      handle: await create(simulatedProviderBase(origin, name), simulatedProviders[name]),
    })),
  );
  return (request, response) => {
    const { url = "" } = request;
    const provider = mounted.find(({ path }) => url.startsWith(`${path}/`));
    if (!provider) {
      void root(request, response);
      return;
    }
    const rest = url.slice(provider.path.length);
    // Only discovery URLs contain the issuer's path (OpenID Connect Discovery 1.0 section 4). Removes that path.
    const { issuerPath } = provider;
    request.url = rest.startsWith(issuerPath) ? `/.well-known/${rest.slice(issuerPath.length)}` : rest;
    void provider.handle(request, response);
  };
}
