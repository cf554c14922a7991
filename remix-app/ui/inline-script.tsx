import { createContext, useContext } from "react";

/**
 * Renders a small inline script with the nonce that the page's policy requires.
 * @param props.type `speculationrules` for JSON that says which links the browser may prefetch
 */
export function InlineScript({ source, type = "module" }: { source: string; type?: "module" | "speculationrules" }) {
  return (
    <script
      nonce={useNonce()}
      type={type}
      suppressHydrationWarning
      // biome-ignore lint/security/noDangerouslySetInnerHtml: our own file, inlined
      dangerouslySetInnerHTML={{ __html: source }}
    />
  );
}

/** The nonce of this response's scripts. Empty in the browser, which hides nonces once they have been checked. */
export const NonceContext = createContext("");

/** Returns the nonce for scripts. */
export function useNonce(): string {
  return useContext(NonceContext);
}
