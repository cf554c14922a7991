import { createContext, useContext } from "react";

/** A small script of ours in the page itself, with the nonce that the page's policy asks for. */
export function InlineScript({ source }: { source: string }) {
  return (
    <script
      nonce={useNonce()}
      type="module"
      suppressHydrationWarning
      // biome-ignore lint/security/noDangerouslySetInnerHtml: our own file, inlined
      dangerouslySetInnerHTML={{ __html: source }}
    />
  );
}

/** The nonce of this response's scripts. Empty in the browser, which hides nonces once they have been checked. */
export const NonceContext = createContext("");

/** The nonce to put on a script. */
export function useNonce(): string {
  return useContext(NonceContext);
}
