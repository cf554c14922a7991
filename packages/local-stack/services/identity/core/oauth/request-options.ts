import { allowInsecureRequests } from "oauth4webapi";

/** How long a provider may take to respond. */
const timeoutMs = 10_000;

/** Returns the options of a request to a provider. Allows plain HTTP only for providers configured with an HTTP URL. */
export function requestOptions(address: string) {
  return {
    signal: () => AbortSignal.timeout(timeoutMs),
    [allowInsecureRequests]: URL.parse(address)?.protocol === "http:",
  };
}
