import { createContext, useContext } from "react";

/**
 * Renders a small inline script with the nonce that the page's policy requires.
 * @param props.type `speculationrules` for JSON that says which links the browser may prefetch
 * @param props.early whether the script runs before the rest of the page is parsed, which a module never does
 */
export function InlineScript(props: { source: string; type?: "module" | "speculationrules"; early?: boolean }) {
  const { source, type = "module", early = false } = props;
  return (
    <script
      nonce={useNonce()}
      type={early ? undefined : type}
      suppressHydrationWarning
      // biome-ignore lint/security/noDangerouslySetInnerHtml: our own file, inlined
      dangerouslySetInnerHTML={{ __html: early ? `"use strict";{\n${source}}` : source }}
    />
  );
}

/** The nonce of this response's scripts. Empty in the browser, which hides nonces once they have been checked. */
export const NonceContext = createContext("");

/** Returns the nonce for scripts. */
export function useNonce(): string {
  return useContext(NonceContext);
}
