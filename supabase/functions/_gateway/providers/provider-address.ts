import type { Endpoint, EndpointAddress } from "./kinds/kind.ts";
import type { Provider } from "./provider-settings.ts";

type Address = { url: string; headers: Record<string, string> };

/**
 * Returns the URL and the key header for a call to a model.
 * @throws Error if the provider doesn't have the endpoint, which admission rules out
 */
export function createModelAddress(
  provider: Provider,
  { endpoint, model }: { endpoint: Endpoint; model: string },
): Address {
  const address = provider.kind.endpoints[endpoint];
  if (!address) throw new Error(`kind ${provider.kind.name} has no endpoint ${endpoint}`);
  return createAddress(provider, {
    ...address,
    path: address.path.replace("{model}", () => encodeURIComponent(model)),
  });
}

/** Returns the URL of a path at the provider, and the headers with its API key. */
export function createAddress(
  { baseUrl, apiKey, apiVersion, kind }: Pick<Provider, "baseUrl" | "apiKey" | "apiVersion" | "kind">,
  { path, keyHeader }: EndpointAddress,
): Address {
  const query = apiVersion === undefined ? "" : `?api-version=${encodeURIComponent(apiVersion)}`;
  const key = apiKey === undefined ? {} : { [keyHeader]: keyHeader === "authorization" ? `Bearer ${apiKey}` : apiKey };
  return { url: `${baseUrl}${path}${query}`, headers: { ...kind.headers, ...key } };
}
