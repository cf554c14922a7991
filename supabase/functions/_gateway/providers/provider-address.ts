import type { Endpoint } from "./kinds/kind.ts";
import type { Provider } from "./provider-settings.ts";

/**
 * Where a call of a model goes, and the header with the provider's key.
 * @throws Error where the provider has no such endpoint, which admission rules out
 */
export function addressOf(
  { kind, baseUrl, apiKey, apiVersion }: Provider,
  { endpoint, model }: { endpoint: Endpoint; model: string },
): { url: string; headers: Record<string, string> } {
  const address = kind.endpoints[endpoint];
  if (!address) throw new Error(`kind ${kind.name} has no endpoint ${endpoint}`);
  const { path, keyHeader } = address;
  const query = apiVersion === undefined ? "" : `?api-version=${encodeURIComponent(apiVersion)}`;
  const headers =
    apiKey === undefined ? {} : { [keyHeader]: keyHeader === "authorization" ? `Bearer ${apiKey}` : apiKey };
  return { url: `${baseUrl}${path.replace("{model}", () => encodeURIComponent(model))}${query}`, headers };
}
