import type { Provider } from "../providers/provider-settings.ts";
import type { ParsedRequest } from "../requests/parsed-request.ts";

/** Matches fields that ask for output which the stream doesn't show, or not as text. */
const hiddenOutput = /reason|think|effort|audio|modalit/;

/**
 * Returns the providers at which a call's answer can be stopped at a given output: a stream of text, without tools that
 * run in between, from a provider that charges only for what it has sent. Returns undefined for any other call, which
 * always reserves its maximum cost.
 */
export function listStoppableProviders(
  providers: ReadonlyMap<string, Provider>,
  request: ParsedRequest,
): string[] | undefined {
  const { stream, feeRequests = 0, inputReads = 1, body = {}, others = {} } = request;
  const hasTools = feeRequests > 0 || inputReads > 1 || ("serverTools" in request && request.serverTools !== undefined);
  if (!stream || hasTools) return undefined;
  if ([...Object.keys(body), ...Object.keys(others)].some((name) => hiddenOutput.test(name))) return undefined;
  return [...providers].flatMap(([id, { drains }]) => (drains ? [] : id));
}
