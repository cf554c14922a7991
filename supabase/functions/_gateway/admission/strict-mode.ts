import type { Run } from "../database/database.ts";
import { GatewayError } from "../http/errors.ts";
import type { Provider } from "../providers/provider-settings.ts";
import { ignoredNames, type ParsedRequest } from "../requests/parsed-request.ts";

/**
 * Refuses a call whose key is in strict mode if the provider of any route would not receive all of the call's
 * parameters.
 * @returns the error, or undefined if nothing would be left out or the key is not in strict mode
 */
export function checkStrictMode(
  { strict, routes }: Pick<Run, "strict" | "routes">,
  { request, providers }: { request: ParsedRequest; providers: ReadonlyMap<string, Provider> },
): GatewayError | undefined {
  if (!strict) return undefined;
  const names = new Set(routes.flatMap(({ provider }) => ignoredNames(request, providers.get(provider))));
  // Allows `client_metadata`, with which Codex describes itself in every call, even if the provider would not receive
  // it.
  names.delete("client_metadata");
  const [param] = names;
  if (param === undefined) return undefined;
  return new GatewayError("unsupported_parameter", {
    param,
    message: `This key is in strict mode, and the model's provider would not get: ${[...names].join(", ")}. Leave out what is named, or use a key without strict mode.`,
  });
}
