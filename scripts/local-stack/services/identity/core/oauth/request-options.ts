import { allowInsecureRequests } from "oauth4webapi";

/** How long a provider may take for an answer. */
const timeoutMs = 10_000;

/** How a provider is asked. Plain HTTP is for those alone whose own address is configured so. */
export function requestOptions(address: string) {
  return {
    signal: () => AbortSignal.timeout(timeoutMs),
    [allowInsecureRequests]: URL.parse(address)?.protocol === "http:",
  };
}
