import { createContext, useContext } from "react";

/** The nonce of this response's scripts. Empty in the browser, which hides nonces once they have been checked. */
export const NonceContext = createContext("");

/** The nonce to put on a script. */
export function useNonce(): string {
  return useContext(NonceContext);
}
