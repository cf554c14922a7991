import { KeyRound } from "lucide-react";
import { Button } from "../ui/button.tsx";
import { useNonce } from "../ui/inline-script.tsx";
import scriptUrl from "./browser/sign-in.ts?worker&url";

/**
 * The button that signs in with a passkey. Its script, which Vite bundles to one file as it does for workers, enables
 * it where the browser can, and offers passkeys in the autofill of the email field too.
 * @param verifyAt our route that takes the passkey's answer
 */
export function PasskeySignIn({ returnUrl, verifyAt = "/login/passkey" }: { returnUrl: string; verifyAt?: string }) {
  const nonce = useNonce();
  return (
    // The note's line is the space to what follows, so that nothing moves when a note appears.
    <div data-passkey-sign-in data-return-url={returnUrl} data-verify-at={verifyAt} className="mb-0.5 space-y-1">
      <div role="alert" hidden className="mb-2 rounded-card border border-bad/40 bg-bad-soft p-3" />
      <Button
        type="button"
        variant="secondary"
        disabled
        data-needs-bot-challenge
        aria-describedby="passkey-note"
        className="w-full"
      >
        <KeyRound aria-hidden="true" className="size-4" />
        Sign in with a passkey
      </Button>
      <p id="passkey-note" aria-live="polite" className="min-h-[1lh] text-center text-muted text-small">
        <span data-note />
        <noscript>Turn on JavaScript to use passkeys.</noscript>
      </p>
      <script type="module" src={scriptUrl} nonce={nonce} suppressHydrationWarning />
    </div>
  );
}
