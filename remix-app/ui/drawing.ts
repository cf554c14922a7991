import { createContext, useContext } from "react";

/** The nonce of this answer's scripts. Empty in the browser, which hides nonces once they have been checked. */
export const NonceContext = createContext("");

/** The nonce to put on a script. */
export function useNonce(): string {
  return useContext(NonceContext);
}

/** What of a page is drawn: all of it; its frame, with `gap` in place of what is still being read; or that alone. */
export type PagePart = "whole" | "rest" | { gap: string };

/** The part that the server draws. In the browser there is but the whole. */
export const PagePartContext = createContext<PagePart>("whole");

/** Whether what is around a page's content is not to be drawn, since it has been. */
export function useFrameDrawn(): boolean {
  return useContext(PagePartContext) === "rest";
}
