import { useNonce } from "./nonce.ts";

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
